

aIdentityb

bIdentitya