
m:
e
a	parameter˜
bconstant˜(00