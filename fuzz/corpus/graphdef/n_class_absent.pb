

xPlaceholder
%
yRelux*
_class
	loc:@gone