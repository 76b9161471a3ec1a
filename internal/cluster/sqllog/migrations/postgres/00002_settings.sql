-- +goose Up
alter table ostiary_cluster
	add column holder_lease bigint not null default 0,
	add column read_lease bigint not null default 0,
	add column acknowledge smallint not null default 0;
alter table ostiary_node
	add column head bigint not null default 0,
	add column zone text not null default '',
	add column preferred smallint not null default 0,
	add column stopped smallint not null default 0;
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
