-- What the MySQL specs share.
return require "spec.sql.common" "mysql"
