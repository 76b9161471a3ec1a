-- +goose Up
create table if not exists ostiary_cluster (
	one smallint primary key,
	id binary(16) not null,
	epoch bigint not null,
	format bigint not null,
	key_fingerprint binary(32) not null
) engine=InnoDB;
create table if not exists ostiary_log (
	shard bigint not null,
	sequence bigint not null,
	hash binary(32) not null,
	parts integer not null,
	bytes longblob not null,
	primary key (shard, sequence)
) engine=InnoDB;
create table if not exists ostiary_part (
	hash binary(32) not null,
	part integer not null,
	made bigint not null,
	bytes longblob not null,
	primary key (hash, part)
) engine=InnoDB;
create table if not exists ostiary_secret (
	store binary(16) not null,
	incarnation binary(16) not null,
	name binary(32) not null,
	digest binary(32) not null,
	body longblob not null,
	primary key (store, incarnation, name)
) engine=InnoDB;
create table if not exists ostiary_lease (
	shard bigint primary key,
	holder binary(16) not null,
	epoch bigint not null,
	renewals bigint not null
) engine=InnoDB;
create table if not exists ostiary_node (
	id binary(16) primary key,
	start bigint not null,
	address varchar(512) character set utf8mb4 collate utf8mb4_bin not null,
	reads_format bigint not null,
	applied bigint not null,
	synced bigint not null,
	seen bigint not null
) engine=InnoDB;
create table if not exists ostiary_snapshot (
	shard bigint primary key,
	sequence bigint not null,
	hash binary(32) not null,
	attempt binary(16) not null
) engine=InnoDB;
create table if not exists ostiary_snapshot_part (
	attempt binary(16) not null,
	part integer not null,
	made bigint not null,
	bytes longblob not null,
	primary key (attempt, part)
) engine=InnoDB;
-- +goose Down
drop table ostiary_snapshot_part;
drop table ostiary_snapshot;
drop table ostiary_node;
drop table ostiary_lease;
drop table ostiary_secret;
drop table ostiary_part;
drop table ostiary_log;
drop table ostiary_cluster;
