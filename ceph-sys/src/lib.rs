//! Raw bindings to librados and librbd (the C interface of Ceph 16.2).
