

aIdentity