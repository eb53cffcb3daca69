// The watchers of any object: librados has this call in C++ only.
//
// What the call needs of librados' C++ interface is declared here by the symbols' names, so that the build needs no
// C++ headers of Ceph, and weakly, so that a librados without them costs the call and not the start of the program.
// They are free functions whose first argument is `this`, not members of a class: a compiler may take it that the
// address of a member is never null, and leave out the test.

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <list>
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

namespace {

// librados::IoCtx: one pointer, null until from_rados_ioctx_t sets it, which takes a reference. close gives it back.
struct IoCtx {
  void *impl;
};

using Watchers = std::list<obj_watch_t>;

} // namespace

#define LIBRADOS(symbol) __asm__("_ZN8librados7v14_2_05IoCtx" symbol) __attribute__((weak))

extern "C" {
void io_ctx_from_rados_ioctx_t(void *io, IoCtx &context) LIBRADOS("18from_rados_ioctx_tEPvRS1_");
int io_ctx_list_watchers(IoCtx *context, const std::string &object, Watchers *watchers)
    LIBRADOS("13list_watchersERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPNS2_4listI11obj_watch_tSaISB_EEE");
void io_ctx_close(IoCtx *context) LIBRADOS("5closeEv");
}

namespace {

class Context {
public:
  explicit Context(void *io) { io_ctx_from_rados_ioctx_t(io, context_); }
  ~Context() { io_ctx_close(&context_); }
  Context(const Context &) = delete;
  Context &operator=(const Context &) = delete;

  int list_watchers(const std::string &object, Watchers *watchers) {
    return io_ctx_list_watchers(&context_, object, watchers);
  }

private:
  IoCtx context_{};
};

int copy(const Watchers &watchers, obj_watch_t **out, std::size_t *count) {
  obj_watch_t *array = nullptr;
  if (!watchers.empty()) {
    array = static_cast<obj_watch_t *>(std::calloc(watchers.size(), sizeof(obj_watch_t)));
    if (array == nullptr)
      return -ENOMEM;
    std::copy(watchers.begin(), watchers.end(), array);
  }
  *out = array;
  *count = watchers.size();
  return 0;
}

} // namespace

extern "C" int ceph_sys_list_watchers(void *io, const char *object, obj_watch_t **out, std::size_t *count) noexcept {
  if (io_ctx_from_rados_ioctx_t == nullptr || io_ctx_list_watchers == nullptr || io_ctx_close == nullptr)
    return -ENOSYS;
  try {
    Watchers watchers;
    const int result = Context(io).list_watchers(object, &watchers);
    return result < 0 ? result : copy(watchers, out, count);
  } catch (const std::bad_alloc &) {
    return -ENOMEM;
  } catch (...) {
    return -EIO;
  }
}

extern "C" void ceph_sys_free_watchers(obj_watch_t *watchers) noexcept { std::free(watchers); }
