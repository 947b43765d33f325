

xRelugone