// SIGBUS outside guarded mappings. A process has one handler, so each case runs as a hidden test in
// a process of its own.

#include "runtime/file/mapping_guard.hpp"

#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace troupe::runtime;

namespace {

constexpr std::size_t page = 65536;  ///< at least the page size of any system
constexpr int as_expected = 42;

/// A file that is truncated while it is mapped: reading it raises SIGBUS.
class missing_page {
 public:
  explicit missing_page(const char* name) : path_(folder_ / name) {
    write_text(path_, std::string(page, 'x'));
    const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    at_ = ::mmap(nullptr, page, PROT_READ, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    std::filesystem::resize_file(path_, 0);
  }
  const char* begin() const { return static_cast<const char*>(at_); }

  void read() const {
    const volatile char* const from = begin();
    static_cast<void>(*from);
  }

 private:
  troupe::tests::scratch_folder folder_;
  std::filesystem::path path_;
  void* at_ = nullptr;
};

void require(bool x) {
  if (!x)
    std::_Exit(1);
}

/// Requires that the guard still replaces unreadable bytes by zeros.
void require_guarded() {
  const missing_page file("guarded");
  const mapping_guard guard(file.begin(), page);
  file.read();
  require(guard.unreadable() == 0 && *file.begin() == 0);
}

int heard = 0;

void hear(int) {
  ++heard;
}

void hear_and_mend(int, siginfo_t* about, void*) {
  ++heard;
  if (about->si_code > 0)
    ::mmap(about->si_addr, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

void handle_by(void (*function)(int)) {
  require(::signal(SIGBUS, function) != SIG_ERR);
}

/// Installs the handler with SA_SIGINFO.
void handle_by(void (*function)(int, siginfo_t*, void*), int flags = 0) {
  struct sigaction action = {};
  action.sa_sigaction = function;
  action.sa_flags = SA_SIGINFO | flags;
  require(::sigaction(SIGBUS, &action, nullptr) == 0);
}

/// Exit status of this program when it runs this hidden test.
int ended(const char* test) {
  const auto child = ::fork();
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
    ::execl("/proc/self/exe", "test", test, nullptr);
    ::_exit(127);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

bool as_it_should(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == as_expected;
}

bool of_the_signal(int status) {
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS;
}

}  // namespace

TEST_CASE("SIGBUS sent by kill, default action", "[.sigbus_sent]") {
  handle_by(SIG_DFL);
  require_guarded();
  ::raise(SIGBUS);
  std::_Exit(as_expected);
}
TEST_CASE("SIGBUS of an unguarded mapping, default action", "[.sigbus_fault]") {
  handle_by(SIG_DFL);
  require_guarded();
  missing_page("own").read();
  std::_Exit(as_expected);
}
TEST_CASE("SIGBUS sent by kill, ignored", "[.sigbus_ignored]") {
  handle_by(SIG_IGN);
  require_guarded();
  ::raise(SIGBUS);
  require_guarded();
  std::_Exit(as_expected);
}
TEST_CASE("SIGBUS sent by kill, plain handler", "[.sigbus_function]") {
  handle_by(hear);
  require_guarded();
  ::raise(SIGBUS);
  ::raise(SIGBUS);
  require(heard == 2);
  require_guarded();
  std::_Exit(as_expected);
}
TEST_CASE("SIGBUS sent by kill and by a mapping, handler with SA_SIGINFO", "[.sigbus_with_more]") {
  handle_by(hear_and_mend);
  require_guarded();
  ::raise(SIGBUS);
  missing_page("own").read();
  missing_page("other").read();
  require(heard == 3);
  require_guarded();
  std::_Exit(as_expected);
}
TEST_CASE("SIGBUS sent by kill twice, handler with SA_RESETHAND", "[.sigbus_once]") {
  handle_by(hear_and_mend, SA_RESETHAND);
  require_guarded();
  ::raise(SIGBUS);
  require(heard == 1);
  require_guarded();
  ::raise(SIGBUS);
  std::_Exit(as_expected);
}

TEST_CASE("a SIGBUS outside guarded mappings ends the process as without guards", "[core]") {
  CHECK(of_the_signal(ended("[.sigbus_sent]")));
  CHECK(of_the_signal(ended("[.sigbus_fault]")));
}

TEST_CASE("an ignored SIGBUS stays ignored, and the guards work", "[core]") {
  CHECK(as_it_should(ended("[.sigbus_ignored]")));
}

TEST_CASE("the handler that was installed before the guards is called, and the guards work",
          "[core]") {
  CHECK(as_it_should(ended("[.sigbus_function]")));
  CHECK(as_it_should(ended("[.sigbus_with_more]")));
  CHECK(of_the_signal(ended("[.sigbus_once]")));
}
