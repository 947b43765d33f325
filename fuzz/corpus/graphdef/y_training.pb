
.
xPlaceholder*
dtype0*
shape:
.
wVarHandleOp*
dtype0*
shape:
(
iAssignVariableOpwx*
dtype0
'
rReadVariableOpw^i*
dtype0
-
mMulrx*
T0*
_class

loc:@w
3
uResourceApplyGradientDescentwxm*
T0

doneNoOp^u^i