
C
xPlaceholder*
dtype0*$
shape:ÿÿÿÿÿÿÿÿÿ
:
kPlaceholder*
dtype0*
shape:
B
cConv2Dxk*
T0*
paddingSAME*
strides

T
pMaxPoolc*
T0*
ksize
*
paddingVALID*
strides

-
nFusedBatchNormV3pkkkk*
T0

rRelun:0^c