

xPlaceholder

yRelux:7