-- The only place; rocks and C read it here.
return "0.1.0"
