-- dlock's version, in this one place: the rocks and the C side read it here.
return "0.1.0"
