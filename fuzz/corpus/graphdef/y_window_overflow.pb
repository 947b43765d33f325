
:
aPlaceholder*
dtype0*
shape:
:
fPlaceholder*
dtype0*
shape:
b
cConv2Daf*
T0*
	dilations
É¤’É¤’É¤*
paddingVALID*
strides
