
m
e
a	parameter˜(00