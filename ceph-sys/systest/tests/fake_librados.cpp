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

// Contexts and operations that have not ended.
static int references;

extern "C" {
int rados_create(rados_t *cluster, const char *) {
  *cluster = nullptr;
  return 0;
}
int rados_conf_read_file(rados_t, const char *) { return 0; }
int rados_connect(rados_t) { return 0; }
int rados_ioctx_create(rados_t, const char *, rados_ioctx_t *io) {
  *io = &references;
  return 0;
}
void rados_ioctx_destroy(rados_ioctx_t) {
  std::printf("references=%d\n", references);
  std::fflush(stdout);
}
void rados_shutdown(rados_t) {}

// A completion is the place of its result. The fake answers before a call returns.
int rados_aio_create_completion2(void *, rados_callback_t, rados_completion_t *completion) {
  static int result;
  *completion = &result;
  return 0;
}
int rados_aio_wait_for_complete(rados_completion_t) { return 0; }
int rados_aio_get_return_value(rados_completion_t completion) { return *static_cast<int *>(completion); }
void rados_aio_release(rados_completion_t) {}
}

#ifndef WITHOUT_LIST_WATCHERS
namespace ceph {
namespace buffer {
inline namespace v15_2_0 {
class list;
} // namespace v15_2_0
} // namespace buffer
} // namespace ceph

namespace librados {
inline namespace v14_2_0 {

class AioCompletion {
public:
  int *result;
};

class ObjectOperation {
public:
  ObjectOperation();
  virtual ~ObjectOperation();

protected:
  std::list<obj_watch_t> *watchers;
};

class ObjectReadOperation : public ObjectOperation {
public:
  void list_watchers(std::list<obj_watch_t> *out, int *result);
  std::list<obj_watch_t> *out() { return watchers; }
};

class IoCtx {
public:
  static void from_rados_ioctx_t(rados_ioctx_t io, IoCtx &context);
  int aio_operate(const std::string &object, AioCompletion *completion, ObjectReadOperation *operation,
                  ceph::buffer::list *out);
  void close();

private:
  void *io;
};

ObjectOperation::ObjectOperation() : watchers(nullptr) { ++references; }
ObjectOperation::~ObjectOperation() { --references; }
void ObjectReadOperation::list_watchers(std::list<obj_watch_t> *out, int *) { watchers = out; }

void IoCtx::from_rados_ioctx_t(rados_ioctx_t io, IoCtx &context) {
  context.io = io;
  ++references;
}

int IoCtx::aio_operate(const std::string &object, AioCompletion *completion, ObjectReadOperation *operation,
                       ceph::buffer::list *) {
  if (object == "refused")
    return -EINVAL;
  if (object == "memory")
    throw std::bad_alloc();
  if (object == "exception")
    throw std::runtime_error("not for C");
  if (object == "integer")
    throw 7;
  *completion->result = object == "missing" ? -ENOENT : 0;
  for (const char *address = object == "two" ? "AB" : ""; *address != '\0'; ++address) {
    obj_watch_t watch{};
    std::memset(watch.addr, *address, sizeof watch.addr - 1);
    watch.watcher_id = -*address;
    watch.cookie = UINT64_MAX;
    watch.timeout_seconds = UINT32_MAX;
    operation->out()->push_back(watch);
  }
  return 0;
}

void IoCtx::close() { --references; }

} // namespace v14_2_0
} // namespace librados
#endif
