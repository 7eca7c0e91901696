-- What the PostgreSQL specs share.
return require "spec.sql.common" "postgres"
