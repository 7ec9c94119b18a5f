// Tests of a system that refuses threads: ranks are still released and groups still closed.

#include "tests/support/nccl_endings.hpp"

#include <catch2/catch_test_macros.hpp>

#include <barrier>
#include <optional>
#include <pthread.h>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

/// During its lifetime this process cannot start threads: they get no stack.
class no_threads {
 public:
  no_threads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t with = {};
    ::pthread_attr_init(&with);
    ::pthread_attr_setstacksize(&with, std::size_t{1} << 47);  // the whole address space
    ::pthread_setattr_default_np(&with);
    ::pthread_attr_destroy(&with);
  }
  ~no_threads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  no_threads(const no_threads&) = delete;
  no_threads& operator=(const no_threads&) = delete;

 private:
  pthread_attr_t before_ = {};
};

}  // namespace

TEST_CASE("a group is closed even if the system refuses threads", "[collective][nccl]") {
  std::optional<no_threads> none;
  const cancel_token token;
  auto groups = groups_of(token);
  std::barrier all_there(2);
  as_nccl_ranks(groups, 2, [&](nccl_communicator& mine, stream& stream) {
    auto x = ones(stream, 8);
    sum(mine, stream, x);
    stream.finish();
    all_there.arrive_and_wait();
    if (mine.rank() == 0)
      none.emplace();
    all_there.arrive_and_wait();
  });
  CHECK_THROWS_AS(std::jthread([] {}), std::system_error);
}

TEST_CASE("a rank is released even if the system refuses threads", "[collective][nccl]") {
  std::optional<no_threads> none;
  const cancel_token token;
  auto groups = groups_of(token);
  std::string told;
  std::barrier all_there(2);
  as_nccl_ranks(groups, 2, [&](nccl_communicator& mine, stream& stream) {
    auto x = ones(stream, 8);
    sum(mine, stream, x);
    stream.finish();
    all_there.arrive_and_wait();
    if (mine.rank() == 0) {
      none.emplace();
      token.cancel();
    }
    all_there.arrive_and_wait();
    const auto end = ending([&] { sum(mine, stream, x); });
    if (mine.rank() == 1)
      told = end;
  });
  CHECK(told == "cancelled");
}
