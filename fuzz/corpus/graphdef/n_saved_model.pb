
"serve

aPlaceholder