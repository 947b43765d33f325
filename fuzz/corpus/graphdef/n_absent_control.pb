

xRelu^gone