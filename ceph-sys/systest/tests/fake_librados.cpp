// A librados for tests/list_watchers.rs: it connects to nothing, and what an object's watchers are depends on its name.
// With WITHOUT_LIST_WATCHERS it is a release that has the C interface only.

#include <rados/librados.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <list>
#include <new>
#include <stdexcept>
#include <string>

extern "C" {
int rados_create(rados_t *cluster, const char *) {
  *cluster = nullptr;
  return 0;
}
int rados_conf_read_file(rados_t, const char *) { return 0; }
int rados_connect(rados_t) { return 0; }
int rados_ioctx_create(rados_t, const char *, rados_ioctx_t *io) {
  static int references;
  *io = &references;
  return 0;
}
void rados_ioctx_destroy(rados_ioctx_t io) {
  std::printf("references=%d\n", *static_cast<int *>(io));
  std::fflush(stdout);
}
void rados_shutdown(rados_t) {}
}

#ifndef WITHOUT_LIST_WATCHERS
namespace librados {
inline namespace v14_2_0 {

struct IoCtx {
  int *references;

  static void from_rados_ioctx_t(rados_ioctx_t io, IoCtx &context);
  int list_watchers(const std::string &object, std::list<obj_watch_t> *watchers);
  void close();
};

void IoCtx::from_rados_ioctx_t(rados_ioctx_t io, IoCtx &context) {
  context.references = static_cast<int *>(io);
  ++*context.references;
}

int IoCtx::list_watchers(const std::string &object, std::list<obj_watch_t> *watchers) {
  if (object == "missing")
    return -ENOENT;
  if (object == "memory")
    throw std::bad_alloc();
  if (object == "exception")
    throw std::runtime_error("not for C");
  if (object == "integer")
    throw 7;
  for (const char *address = object == "two" ? "AB" : ""; *address != '\0'; ++address) {
    obj_watch_t watch{};
    std::memset(watch.addr, *address, sizeof watch.addr - 1);
    watch.watcher_id = -*address;
    watch.cookie = UINT64_MAX;
    watch.timeout_seconds = UINT32_MAX;
    watchers->push_back(watch);
  }
  return 0;
}

void IoCtx::close() { --*references; }

} // namespace v14_2_0
} // namespace librados
#endif
