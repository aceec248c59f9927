//! Stores of configurations, told as stories.

mod contract;
mod etcd_answers;
mod etcd_connections;
mod etcd_members;
mod etcd_sharing;
mod etcd_tls;
mod files;
mod files_processes;
mod support;
