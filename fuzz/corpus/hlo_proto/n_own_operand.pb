
m<
e
a	parameter˜
bnegate˜¢(00