// The watchers of any object: librados has this in C++ only.
//
// What it needs of librados' C++ interface is declared here by the symbols' names, so that the build needs no C++
// headers of Ceph, and weakly, so that a librados without them costs the call and not the start of the program. They
// are free functions whose first argument is `this`, not members of a class: a compiler may take it that the address
// of a member is never null, and leave out the test.

#include <cerrno>
#include <cstdint>
#include <list>
#include <memory>
#include <new>
#include <string>

#if !defined(__GLIBCXX__) || !_GLIBCXX_USE_CXX11_ABI
#error "librados passes std::string and std::list of libstdc++, in the C++11 ABI: compile with that library"
#endif

// rados/rados_types.h
struct obj_watch_t {
  char addr[256];
  std::int64_t watcher_id;
  std::uint64_t cookie;
  std::uint32_t timeout_seconds;
};

struct ceph_sys_watchers {
  std::list<obj_watch_t> list;
};

namespace {

// librados::IoCtx: one pointer, null until from_rados_ioctx_t sets it, which takes a reference. close gives it back.
struct IoCtx {
  void *impl;
};

// librados::AioCompletion: one pointer, which is a rados_completion_t.
struct AioCompletion {
  void *impl;
};

// librados::ObjectOperation, the base of ObjectReadOperation and all there is to it: a virtual destructor and one
// pointer.
struct ObjectOperation {
  void *table;
  void *impl;
};

struct BufferList;

} // namespace

#define LIBRADOS(symbol) __asm__("_ZN8librados7v14_2_0" symbol) __attribute__((weak))

extern "C" {
void io_ctx_from_rados_ioctx_t(void *io, IoCtx &context) LIBRADOS("5IoCtx18from_rados_ioctx_tEPvRS1_");
int io_ctx_aio_operate(IoCtx *context, const std::string &object, AioCompletion *completion,
                       ObjectOperation *operation, BufferList *out)
    LIBRADOS("5IoCtx11aio_operateERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPNS0_13AioCompletionE"
             "PNS0_19ObjectReadOperationEPN4ceph6buffer7v15_2_04listE");
void io_ctx_close(IoCtx *context) LIBRADOS("5IoCtx5closeEv");
void object_operation_construct(ObjectOperation *operation) LIBRADOS("15ObjectOperationC1Ev");
void object_operation_destroy(ObjectOperation *operation) LIBRADOS("15ObjectOperationD1Ev");
void object_read_operation_list_watchers(ObjectOperation *operation, std::list<obj_watch_t> *watchers, int *result)
    LIBRADOS("19ObjectReadOperation13list_watchersEPNSt7__cxx114listI11obj_watch_tSaIS4_EEEPi");
}

namespace {

bool librados_has_all() {
  return io_ctx_from_rados_ioctx_t != nullptr && io_ctx_aio_operate != nullptr && io_ctx_close != nullptr &&
         object_operation_construct != nullptr && object_operation_destroy != nullptr &&
         object_read_operation_list_watchers != nullptr;
}

class Context {
public:
  explicit Context(void *io) { io_ctx_from_rados_ioctx_t(io, context_); }
  ~Context() { io_ctx_close(&context_); }
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  int aio_operate(const std::string &object, void *completion, ObjectOperation *operation) {
    AioCompletion wrapped{completion};
    return io_ctx_aio_operate(&context_, object, &wrapped, operation, nullptr);
  }

private:
  IoCtx context_{};
};

class ListWatchers {
public:
  explicit ListWatchers(std::list<obj_watch_t> *watchers) {
    object_operation_construct(&operation_);
    object_read_operation_list_watchers(&operation_, watchers, nullptr);
  }
  ~ListWatchers() { object_operation_destroy(&operation_); }
  ListWatchers(const ListWatchers &) = delete;
  ListWatchers &operator=(const ListWatchers &) = delete;

  ObjectOperation *get() { return &operation_; }

private:
  ObjectOperation operation_{};
};

} // namespace

extern "C" int ceph_sys_aio_list_watchers(void *io, const char *object, void *completion,
                                          ceph_sys_watchers **out) noexcept {
  if (!librados_has_all())
    return -ENOSYS;
  try {
    const std::string name(object);
    auto watchers = std::make_unique<ceph_sys_watchers>();
    ListWatchers operation(&watchers->list);
    Context context(io);
    const int result = context.aio_operate(name, completion, operation.get());
    if (result < 0)
      return result;
    *out = watchers.release(); // librados fills it from now on
    return 0;
  } catch (const std::bad_alloc &) {
    return -ENOMEM;
  } catch (...) {
    return -EIO;
  }
}

extern "C" bool ceph_sys_watchers_pop(ceph_sys_watchers *watchers, obj_watch_t *out) noexcept {
  if (watchers->list.empty())
    return false;
  *out = watchers->list.front();
  watchers->list.pop_front();
  return true;
}

extern "C" void ceph_sys_watchers_free(ceph_sys_watchers *watchers) noexcept { delete watchers; }
