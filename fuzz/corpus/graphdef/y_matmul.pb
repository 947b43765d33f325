
2
xPlaceholder*
dtype0*
shape
:
2
wPlaceholder*
dtype0*
shape
:
-
yMatMulxw*
T0*
transpose_b(