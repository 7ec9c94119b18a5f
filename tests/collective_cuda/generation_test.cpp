// Tests of dying ranks and ending generations: all waiting ranks are released.

#include "tests/support/nccl_endings.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <unistd.h>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Captures stderr during its lifetime.
class said_by_device {
 public:
  said_by_device() : before_(::dup(2)), file_(std::tmpfile()) { ::dup2(::fileno(file_), 2); }
  ~said_by_device() {
    ::dup2(before_, 2);
    ::close(before_);
    std::fclose(file_);
  }
  said_by_device(const said_by_device&) = delete;
  said_by_device& operator=(const said_by_device&) = delete;

  std::string text() const {
    std::fflush(stderr);
    std::string out(4096, 0);
    const auto n = ::pread(::fileno(file_), out.data(), out.size(), 0);
    out.resize(n < 0 ? 0 : std::size_t(n));
    return out;
  }

 private:
  int before_;
  std::FILE* file_;
};

}  // namespace

TEST_CASE(
    "if a rank misses an operation, the end of the generation releases the queues of the others",
    "[collective][nccl]") {
  const cancel_token token;
  auto groups = groups_of(token);
  std::atomic<int> waiting = 0, freed = 0;
  as_nccl_ranks(groups, 4, [&](nccl_communicator& mine, stream& stream) {
    auto x = ones(stream, 1000);
    sum(mine, stream, x);
    stream.finish();
    ++waiting;
    if (mine.rank() == 2) {  // plays a dead rank
      while (waiting < 4)
        std::this_thread::yield();
      std::this_thread::sleep_for(5ms);
      token.cancel();
      return;
    }
    const auto told = ending([&] {
      for (;;) {
        sum(mine, stream, x);
        stream.finish();  // waits for the sum on the device
      }
    });
    freed += told == "cancelled";
    stream.clear(x.raw(), x.bytes());
  });
  CHECK(freed == 3);
}

TEST_CASE("a check after the wait for a queue finds results that the end of a generation left out",
          "[collective][nccl]") {
  const cancel_token token;
  auto groups = groups_of(token);
  std::atomic<int> waiting = 0, found = 0;
  as_nccl_ranks(groups, 4, [&](nccl_communicator& mine, stream& stream) {
    auto x = ones(stream, 1000);
    sum(mine, stream, x);
    stream.finish();
    mine.check();
    ++waiting;
    if (mine.rank() == 2) {  // plays a dead rank
      while (waiting < 4)
        std::this_thread::yield();
      std::this_thread::sleep_for(5ms);
      token.cancel();
      return;
    }
    found += ending([&] {
               sum(mine, stream, x);
               stream.finish();
               mine.check();
             })
             == "cancelled";
  });
  CHECK(found == 3);
}

TEST_CASE("the loss of a process releases the ranks of its groups with the cause",
          "[collective][nccl]") {
  auto groups = groups_of({});
  std::atomic<int> waiting = 0, named = 0, others = 0;
  on_threads(4, [&](int r) {
    stream stream(kernels::backend::cuda, 1, {}, r);
    const auto mine = make_nccl_communicator(
        groups, {r < 2 ? "here" : "lost", axis::data, r % 2, 2, r, {0, r < 2 ? 0 : 1}});
    auto x = ones(stream, 1000);
    sum(*mine, stream, x);
    stream.finish();
    ++waiting;
    if (r == 3) {  // plays the dead process
      while (waiting < 4)
        std::this_thread::yield();
      groups.lose(1, "killed by signal 9");
      return;
    }
    if (r < 2) {
      sum(*mine, stream, x);
      stream.finish();
      mine->check();
      ++others;
      return;
    }
    try {
      for (;;) {
        sum(*mine, stream, x);
        stream.finish();
        mine->check();
      }
    } catch (const peer_lost& loss) {
      named += std::string(loss.what()).find("process 1: killed by signal 9") != std::string::npos;
    }
  });
  CHECK(named == 1);
  CHECK(others == 2);
  CHECK_THROWS_AS(
      [&] {  // a group that is joined after the loss
        const auto late = make_nccl_communicator(groups, {"late", axis::data, 0, 2, 0, {0, 1}});
        late->check();
      }(),
      peer_lost);
}

TEST_CASE("the loss of a process releases a rank that waits for the id of a group",
          "[collective][nccl]") {
  auto groups = groups_of({});
  const auto mine = make_nccl_communicator(groups, {"pair", axis::data, 1, 2, 0, {0, 1}});
  std::thread loss([&] {
    std::this_thread::sleep_for(5ms);
    groups.lose(0, "killed by signal 9");
  });
  CHECK_THROWS_AS(mine->connect(), peer_lost);
  loss.join();
}

TEST_CASE("a generation may end during the initialisation of communicators", "[collective][nccl]") {
  const int delay_us = GENERATE(0, 50, 200, 500, 1000, 5000);
  const bool all_come = GENERATE(false, true);
  CAPTURE(delay_us, all_come);
  const cancel_token token;
  auto groups = groups_of(token);
  std::atomic<int> released = 0;
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    token.cancel();
  });
  on_threads(4, [&](int r) {
    if (r == 3 && !all_come)
      return;
    stream stream(kernels::backend::cuda, 1, {}, r);
    const auto mine = make_nccl_communicator(groups, {"all", axis::data, r, 4, r});
    auto x = ones(stream, 10);
    released += ending([&] {
                  for (;;)
                    sum(*mine, stream, x);
                })
                == "cancelled";
  });
  end.join();
  CHECK(released == (all_come ? 4 : 3));
}

TEST_CASE(
    "the end of a generation releases all ranks in any operation, and no write to freed memory "
    "follows",
    "[collective][nccl]") {
  const int which = GENERATE(range(0, 7)), delay_us = GENERATE(0, 300, 2000);
  CAPTURE(which, delay_us);
  constexpr std::int64_t n = 1 << 12;
  const cancel_token token;
  auto groups = groups_of(token);
  std::atomic<int> begun = 0, released = 0;
  std::thread end([&] {
    while (begun < 4)
      std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    token.cancel();
  });
  as_nccl_ranks(groups, 4, [&](nccl_communicator& mine, stream& stream) {
    auto from = ones(stream, n), to = ones(stream, n);
    const void* const part = from.raw();
    const auto ends = equal_ends(n, 4), bytes = equal_ends(n * 4, 4);
    ++begun;
    std::shared_ptr<void> held;
    const auto told = ending([&] {
      held = mine.hold(from.raw(), from.bytes());
      for (int round = 0;; ++round) {
        if (round % 5 == mine.rank())
          std::this_thread::sleep_for(100us);
        const int next = (mine.rank() + 1) % 4, before = (mine.rank() + 3) % 4;
        const nccl_send send{from.raw(), n * 4, next};
        const nccl_receive receive{to.raw(), n * 4, before};
        switch (which) {
          case 0:
            mine.all_reduce_sum(stream, dtype::f32, {&part, 1}, to.raw(), n);
            break;
          case 1:
            mine.reduce_scatter_sum(stream, dtype::f32, {&part, 1}, to.raw(), ends);
            break;
          case 2:
            mine.all_gather(stream, from.raw(), to.raw(), bytes);
            break;
          case 3:
            mine.all_to_all(stream, from.raw(), bytes, to.raw(), bytes);
            break;
          case 4:
            mine.broadcast(stream, from.raw(), n * 4, round % 4);
            break;
          case 5:
            mine.exchange(stream, {&send, 1}, {&receive, 1});
            break;
          default:
            mine.barrier();
            break;
        }
      }
    });
    released += told == "cancelled";
    from = to = {};
    auto next = uploaded(stream, std::vector<float>(std::size_t(n), 5), {n});
    ensure(elements_of<float>(stream, next) == std::vector<float>(std::size_t(n), 5),
           "no late write");
  });
  end.join();
  CHECK(released == 4);
}

TEST_CASE(
    "when a rank sees the end of its generation, all queues of the group have finished their work",
    "[collective][nccl]") {
  emulator::set_delay(5000);
  const cancel_token token;
  auto groups = groups_of(token);
  std::vector<std::shared_ptr<device_event>> last(3);
  std::atomic<int> waiting = 0, early = 0;
  as_nccl_ranks(groups, 3, [&](nccl_communicator& mine, stream& stream) {
    auto x = ones(stream, 100);
    mine.barrier();
    if (mine.rank() > 0)  // rank 0 stays away
      mine.broadcast(stream, x.raw(), 16, 1);
    for (int i = 0; i < 4; ++i)  // delayed items
      stream.clear(x.raw(), x.bytes());
    last[std::size_t(mine.rank())] = stream.mark();
    ++waiting;
    while (waiting < 3)
      std::this_thread::yield();
    if (mine.rank() == 0)
      token.cancel();
    while (!token.is_cancelled())
      std::this_thread::yield();
    while (ending([&] { sum(mine, stream, x); }).empty()) {
    }
    for (const auto& one : last)
      early += !one->passed();
  });
  emulator::set_delay(0);
  CHECK(early == 0);
}

TEST_CASE("registered memory is released before communicators are aborted or closed",
          "[collective][nccl]") {
  const bool aborted = GENERATE(false, true);
  const said_by_device said;  // a late release would print a refusal
  const cancel_token token;
  std::vector<std::shared_ptr<void>> held(2);
  {
    auto groups = groups_of(token);
    as_nccl_ranks(groups, 2, [&](nccl_communicator& mine, stream& stream) {
      auto x = ones(stream, 100);
      held[std::size_t(mine.rank())] = mine.hold(x.raw(), x.bytes());
      mine.barrier();
    });
    if (aborted)
      token.cancel();
  }
  CHECK_THAT(said.text(), !ContainsSubstring("ncclCommDeregister"));
}

TEST_CASE("a rank cannot join a group of an ended generation", "[collective][nccl]") {
  const cancel_token token;
  token.cancel();
  auto groups = groups_of(token);
  std::atomic<int> refused = 0;
  as_nccl_ranks(groups, 2, [&](nccl_communicator& mine, stream&) {
    refused += ending([&] { mine.connect(); }) == "cancelled";
    refused += ending([&] { mine.barrier(); }) == "cancelled";
  });
  CHECK(refused == 4);
}

TEST_CASE("child communicators are aborted with their parents", "[collective][nccl]") {
  const bool splitting = GENERATE(false, true);
  const cancel_token token;
  auto groups = groups_of(token);
  std::atomic<int> waiting = 0, released = 0;
  as_nccl_ranks(groups, 3, [&](nccl_communicator& mine, stream& stream) {
    auto x = ones(stream, 100);
    std::unique_ptr<nccl_communicator> child;
    if (!splitting)
      child = mine.split(axis::data, 0, 0);
    else
      mine.connect();
    ++waiting;
    if (mine.rank() == 0) {
      while (waiting < 3)
        std::this_thread::yield();
      std::this_thread::sleep_for(5ms);
      token.cancel();
      return;
    }
    released += ending([&] {
                  if (splitting)
                    child = mine.split(axis::data, 0, 0);
                  for (;;) {
                    sum(*child, stream, x);
                    stream.finish();
                  }
                })
                == "cancelled";
  });
  CHECK(released == 2);
}
