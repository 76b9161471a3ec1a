-- +goose Up
create table ostiary_cluster (
	one smallint primary key,
	id bytea not null,
	epoch bigint not null,
	format bigint not null,
	key_fingerprint bytea not null
);
create table ostiary_log (
	shard bigint not null,
	sequence bigint not null,
	hash bytea not null,
	parts integer not null,
	bytes bytea not null,
	primary key (shard, sequence)
);
create table ostiary_part (
	hash bytea not null,
	part integer not null,
	made bigint not null,
	bytes bytea not null,
	primary key (hash, part)
);
create table ostiary_secret (
	store bytea not null,
	incarnation bytea not null,
	name bytea not null,
	digest bytea not null,
	body bytea not null,
	primary key (store, incarnation, name)
);
create table ostiary_lease (
	shard bigint primary key,
	holder bytea not null,
	epoch bigint not null,
	renewals bigint not null
);
create table ostiary_node (
	id bytea primary key,
	start bigint not null,
	address text not null,
	reads_format bigint not null,
	applied bigint not null,
	synced bigint not null,
	seen bigint not null
);
create table ostiary_snapshot (
	shard bigint primary key,
	sequence bigint not null,
	hash bytea not null,
	attempt bytea not null
);
create table ostiary_snapshot_part (
	attempt bytea not null,
	part integer not null,
	made bigint not null,
	bytes bytea not null,
	primary key (attempt, part)
);
-- +goose Down
drop table ostiary_snapshot_part;
drop table ostiary_snapshot;
drop table ostiary_node;
drop table ostiary_lease;
drop table ostiary_secret;
drop table ostiary_part;
drop table ostiary_log;
drop table ostiary_cluster;
