
*
xPlaceholder*
shape:ùÿÿÿÿÿÿÿÿ