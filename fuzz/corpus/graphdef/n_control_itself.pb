

aRelu^a