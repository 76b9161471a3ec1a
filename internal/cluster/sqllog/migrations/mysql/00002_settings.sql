-- A statement that changes a table is its own transaction here. So each is made only if
-- its columns are missing, and a migration that was cut off can be repeated. MySQL has no
-- "add column if not exists".
-- +goose Up
set @change = (select if(count(*) = 0, 'alter table ostiary_cluster
	add column holder_lease bigint not null default 0,
	add column read_lease bigint not null default 0,
	add column acknowledge smallint not null default 0', 'do 0')
	from information_schema.columns where table_schema = database() and table_name = 'ostiary_cluster' and column_name = 'holder_lease');
prepare change_cluster from @change;
execute change_cluster;
deallocate prepare change_cluster;
set @change = (select if(count(*) = 0, 'alter table ostiary_node
	add column head bigint not null default 0,
	add column zone varchar(128) character set utf8mb4 collate utf8mb4_bin not null default '''',
	add column preferred smallint not null default 0,
	add column stopped smallint not null default 0', 'do 0')
	from information_schema.columns where table_schema = database() and table_name = 'ostiary_node' and column_name = 'head');
prepare change_node from @change;
execute change_node;
deallocate prepare change_node;
-- +goose Down
alter table ostiary_node
	drop column stopped,
	drop column preferred,
	drop column zone,
	drop column head;
alter table ostiary_cluster
	drop column acknowledge,
	drop column read_lease,
	drop column holder_lease;
