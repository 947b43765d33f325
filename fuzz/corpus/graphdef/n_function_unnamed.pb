
,
xPlaceholder*
dtype0*
shape:

uMySource
>
aMyOpxu:7*+
_output_shapes
:ÿÿÿÿÿÿÿÿÿ:

bPartitionedCalla:1a:3

p	IdentityNa:1x

qNegp:1

v_Retvalq