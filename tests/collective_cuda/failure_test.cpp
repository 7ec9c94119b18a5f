// Ranks that die, generations that end, errors of NCCL: everybody is released and told why.

#include "runtime/core/error.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/emulator/control.hpp"
#include "tests/support/nccl_ranks.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <unistd.h>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

using steady = std::chrono::steady_clock;

// A wait that times out takes a second or more; an abort takes milliseconds, on a machine that is
// busy with other builds perhaps hundreds.
constexpr auto at_once = 1s;

nccl_groups groups_of(const cancel_token& token) {
  return {token, 7, collective_mode::ordered};
}

tensor ones(stream& on, std::int64_t n) {
  return uploaded(on, std::vector<float>(std::size_t(n), 1), {n});
}

void sum(communicator& group, stream& on, tensor& x) {
  const void* const part = x.raw();
  group.all_reduce_sum(on, dtype::f32, {&part, 1}, x.raw(), x.size());
}

/// What the work ends with: "" for nothing.
std::string ending(const std::function<void()>& act) {
  try {
    act();
    return "";
  } catch (const cancelled&) {
    return "cancelled";
  } catch (const broken_promise& x) {
    return x.what();
  } catch (const device_failure& x) {
    return x.what();
  } catch (const input_error& x) {
    return x.what();
  }
}

/// Faults of the emulated device while it stands.
struct planted {
  explicit planted(const std::string& faults) { emulator::plant_faults(faults); }
  ~planted() { emulator::plant_faults(""); }
  planted(const planted&) = delete;
  planted& operator=(const planted&) = delete;
};

/// What comes to the error output while it stands.
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
    "a rank that does not come to an operation releases the queues of the others with the "
    "generation",
    "[collective][nccl]") {
  const cancel_token token;
  auto groups = groups_of(token);
  std::atomic<int> waiting = 0, freed = 0;
  std::atomic<steady::time_point> ended{};
  std::atomic<bool> late = false;
  as_nccl_ranks(groups, 4, [&](nccl_communicator& mine, stream& on) {
    auto x = ones(on, 1000);
    sum(mine, on, x);
    on.finish();
    ++waiting;
    if (mine.rank() == 2) {  // dies
      while (waiting < 4)
        std::this_thread::yield();
      std::this_thread::sleep_for(5ms);
      ended = steady::now();
      token.cancel();
      return;
    }
    const auto told = ending([&] {
      for (;;) {
        sum(mine, on, x);
        on.finish();  // sleeps on the device's side of the sum
      }
    });
    late = late || steady::now() - ended.load() > at_once;
    freed += told == "cancelled";
    on.clear(x.raw(), x.bytes());
  });
  CHECK(freed == 3);
  CHECK_FALSE(late);
}

TEST_CASE("a generation may end while communicators are being made", "[collective][nccl]") {
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
    stream on(kernels::backend::cuda, 1, {}, r);
    const auto mine = make_nccl_communicator(groups, {"all", axis::data, r, 4, r});
    auto x = ones(on, 10);
    released += ending([&] {
                  for (;;)
                    sum(*mine, on, x);
                })
                == "cancelled";
  });
  end.join();
  CHECK(released == (all_come ? 4 : 3));
}

TEST_CASE(
    "a generation that ends in any operation at any moment releases everybody, and memory "
    "may be used for something else",
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
  as_nccl_ranks(groups, 4, [&](nccl_communicator& mine, stream& on) {
    auto from = ones(on, n), to = ones(on, n);
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
            mine.all_reduce_sum(on, dtype::f32, {&part, 1}, to.raw(), n);
            break;
          case 1:
            mine.reduce_scatter_sum(on, dtype::f32, {&part, 1}, to.raw(), ends);
            break;
          case 2:
            mine.all_gather(on, from.raw(), to.raw(), bytes);
            break;
          case 3:
            mine.all_to_all(on, from.raw(), bytes, to.raw(), bytes);
            break;
          case 4:
            mine.broadcast(on, from.raw(), n * 4, round % 4);
            break;
          case 5:
            mine.exchange(on, {&send, 1}, {&receive, 1});
            break;
          default:
            mine.barrier();
            break;
        }
      }
    });
    released += told == "cancelled";
    from = to = {};
    auto next = uploaded(on, std::vector<float>(std::size_t(n), 5), {n});
    ensure(elements_of<float>(on, next) == std::vector<float>(std::size_t(n), 5),
           "nobody writes to it any more");
  });
  end.join();
  CHECK(released == 4);
}

TEST_CASE(
    "whoever is told that its generation has ended finds every queue of the group past its work",
    "[collective][nccl]") {
  emulator::set_delay(5000);
  const cancel_token token;
  auto groups = groups_of(token);
  std::vector<std::shared_ptr<device_event>> last(3);
  std::atomic<int> waiting = 0, early = 0;
  as_nccl_ranks(groups, 3, [&](nccl_communicator& mine, stream& on) {
    auto x = ones(on, 100);
    mine.barrier();
    if (mine.rank() > 0)  // 0 does not come
      mine.broadcast(on, x.raw(), 16, 1);
    for (int i = 0; i < 4; ++i)  // items that the queue takes up late
      on.clear(x.raw(), x.bytes());
    last[std::size_t(mine.rank())] = on.mark();
    ++waiting;
    while (waiting < 3)
      std::this_thread::yield();
    if (mine.rank() == 0)
      token.cancel();
    while (!token.is_cancelled())
      std::this_thread::yield();
    while (ending([&] { sum(mine, on, x); }).empty()) {
    }
    for (const auto& one : last)
      early += !one->passed();
  });
  emulator::set_delay(0);
  CHECK(early == 0);
}

TEST_CASE("memory that is held is let go before communicators are aborted or closed",
          "[collective][nccl]") {
  const bool aborted = GENERATE(false, true);
  const said_by_device said;  // it refuses, in words, what is let go too late
  const cancel_token token;
  std::vector<std::shared_ptr<void>> held(2);
  {
    auto groups = groups_of(token);
    as_nccl_ranks(groups, 2, [&](nccl_communicator& mine, stream& on) {
      auto x = ones(on, 100);
      held[std::size_t(mine.rank())] = mine.hold(x.raw(), x.bytes());
      mine.barrier();
    });
    if (aborted)
      token.cancel();
  }
  CHECK_THAT(said.text(), !ContainsSubstring("ncclCommDeregister"));
}

TEST_CASE("nobody enters a group whose generation has ended", "[collective][nccl]") {
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

TEST_CASE("children are aborted with their parents", "[collective][nccl]") {
  const bool splitting = GENERATE(false, true);
  const cancel_token token;
  auto groups = groups_of(token);
  std::atomic<int> waiting = 0, released = 0;
  as_nccl_ranks(groups, 3, [&](nccl_communicator& mine, stream& on) {
    auto x = ones(on, 100);
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
                    sum(*child, on, x);
                    on.finish();
                  }
                })
                == "cancelled";
  });
  CHECK(released == 2);
}

TEST_CASE("an error of NCCL names the rank, the group, what was done, and ends the group for all",
          "[collective][nccl]") {
  struct fault {
    const char* planted;
    const char* doing;
  };
  const auto [where, doing] = GENERATE(fault{"ncclCommInitRankConfig@2=2", "coming together"},
                                       fault{"ncclSend@1=3", "sending and receiving"},
                                       fault{"ncclGroupEnd@2=1", "sending and receiving"},
                                       fault{"ncclAsync@1=6", "sending and receiving"});
  CAPTURE(where);
  const planted faults(where);
  const cancel_token token;
  auto groups = groups_of(token);
  std::vector<std::string> told(2);
  std::atomic<int> left = 0;
  as_nccl_ranks(
      groups,
      2,
      [&](nccl_communicator& mine, stream& on) {
        auto x = ones(on, 100);
        told[std::size_t(mine.rank())] = ending([&] {
          for (;;) {
            sum(mine, on, x);
            on.finish();
          }
        });
        if (++left == 2)
          token.cancel();
      },
      "data of part 0.1");
  for (const auto& text : told) {
    CHECK_THAT(text, StartsWith("NCCL: rank "));
    CHECK_THAT(text,
               ContainsSubstring("of the group 'data of part 0.1', generation 7, ")
                   && ContainsSubstring(doing));
  }
  CHECK(told[0] == told[1]);  // the first cause
}

TEST_CASE("an id that cannot be made ends its rank, and the generation the others",
          "[collective][nccl]") {
  const planted faults("ncclGetUniqueId@1=2");
  const cancel_token token;
  auto groups = groups_of(token);
  std::vector<std::string> told(2);
  as_nccl_ranks(groups, 2, [&](nccl_communicator& mine, stream&) {
    told[std::size_t(mine.rank())] = ending([&] { mine.connect(); });
    if (mine.rank() == 0)
      token.cancel();
  });
  CHECK_THAT(told[0], ContainsSubstring("making its id"));
  CHECK((told[1] == "cancelled" || told[1] == told[0]));
}

TEST_CASE("an error that nobody waits for is found: ranks of two processes with different sizes",
          "[collective][nccl]") {
  // Two lists of groups know nothing of each other, as in two processes; only the id has travelled.
  const cancel_token token;
  const auto ids = std::make_shared<nccl_meeting>();
  std::vector<std::unique_ptr<nccl_groups>> processes;
  for (int p = 0; p < 2; ++p)
    processes.push_back(
        std::make_unique<nccl_groups>(token, 1, collective_mode::fast, ids, ordered_scratch));
  std::vector<std::string> told(2);
  on_threads(2, [&](int r) {
    stream on(kernels::backend::cuda, 1, {}, r);
    const auto mine
        = make_nccl_communicator(*processes[std::size_t(r)], {"both", axis::data, r, 2, r});
    auto x = ones(on, 100), y = ones(on, 10 + r);
    sum(*mine, on, x);
    ensure(elements_of<float>(on, x) == std::vector<float>(100, 2), "processes sum together");
    told[std::size_t(r)] = ending([&] {
      sum(*mine, on, y);
      on.finish();  // until the watch has found it
      sum(*mine, on, x);
    });
  });
  for (const auto& text : told)
    CHECK_THAT(text, StartsWith("NCCL: rank ") && ContainsSubstring("summing"));
}

TEST_CASE(
    "COLLECTIVE-1: between devices, too, a rank that comes for something else is found, and "
    "nobody hangs",
    "[collective][nccl][invariant]") {
  const int other = GENERATE(range(0, 3)), how = GENERATE(range(0, 7));
  CAPTURE(other, how);
  auto groups = groups_of({});
  std::vector<std::string> told(3);
  as_nccl_ranks(groups, 3, [&](nccl_communicator& mine, stream& on) {
    auto x = ones(on, 64), to = ones(on, 64);
    const void* const part = x.raw();
    const void* const two[] = {x.raw(), x.raw()};
    const std::vector<std::int64_t> ends{4, 8, 16}, fewer{4, 8, 12}, elsewhere{4, 12, 16};
    const bool me = mine.rank() == other;
    told[std::size_t(mine.rank())] = ending([&] {
      switch (how) {
        case 0:
          me ? mine.barrier() : mine.all_reduce_sum(on, dtype::f32, {&part, 1}, to.raw(), 16);
          break;
        case 1:
          mine.all_reduce_sum(on, dtype::f32, {&part, 1}, to.raw(), me ? 15 : 16);
          break;
        case 2:
          mine.all_reduce_sum(on, dtype::f32, std::span(two, me ? 2U : 1U), to.raw(), 16);
          break;
        case 3:
          mine.reduce_scatter_sum(on, dtype::f32, {&part, 1}, to.raw(), me ? fewer : ends);
          break;
        case 4:
          mine.broadcast(on, x.raw(), 64, me ? 1 : 0);
          break;
        case 5:
          mine.all_reduce_sum(on, me ? dtype::bf16 : dtype::f32, {&part, 1}, to.raw(), 16);
          break;
        default:
          mine.all_gather(on, x.raw(), to.raw(), me ? elsewhere : ends);
          break;
      }
      on.finish();
      mine.barrier();  // whoever was put on a queue before it was found is told now
    });
  });
  for (const auto& text : told)
    CHECK_THAT(text, StartsWith("COLLECTIVE-1: along tp"));
}

TEST_CASE("COLLECTIVE-4: between devices, too, what one rank sends is as much as the other expects",
          "[collective][nccl][invariant]") {
  const bool pairs = GENERATE(false, true);
  auto groups = groups_of({});
  std::vector<std::string> told(2);
  as_nccl_ranks(groups, 2, [&](nccl_communicator& mine, stream& on) {
    auto from = ones(on, 8), to = ones(on, 8);
    const std::vector<std::int64_t> bytes{4, 8}, too_few{3, 7};
    told[std::size_t(mine.rank())] = ending([&] {
      if (!pairs)
        mine.all_to_all(on, from.raw(), bytes, to.raw(), mine.rank() == 0 ? bytes : too_few);
      else if (mine.rank() == 0)
        mine.send(on, from.raw(), 8, 1);
      else
        mine.receive(on, to.raw(), 7, 0);
      on.finish();
      mine.barrier();
    });
  });
  for (const auto& text : told)
    CHECK_THAT(
        text,
        StartsWith("COLLECTIVE-4: what one rank sends is as much as the other expects: along "
                   "tp rank "));
}

TEST_CASE("COLLECTIVE-3: between devices, too, sums take f32, bf16 and f16",
          "[collective][nccl][invariant]") {
  auto groups = groups_of({});
  const auto mine = make_nccl_communicator(groups, {"one", axis::data, 0, 1, 0});
  stream on(kernels::backend::cuda, 1, {}, 0);
  auto x = ones(on, 4);
  const void* const part = x.raw();
  CHECK_THROWS_MATCHES(mine->all_reduce_sum(on, dtype::i32, {&part, 1}, x.raw(), 4),
                       broken_promise,
                       MessageMatches(StartsWith("COLLECTIVE-3")));
}

TEST_CASE("two ranks of a group on one device are refused", "[collective][nccl]") {
  auto groups = groups_of({});
  const auto first = make_nccl_communicator(groups, {"data of part 0.0", axis::data, 0, 2, 1});
  CHECK_THROWS_MATCHES(
      make_nccl_communicator(groups, {"data of part 0.0", axis::data, 1, 2, 1}),
      input_error,
      MessageMatches(ContainsSubstring("one rank a device")
                     && ContainsSubstring("ranks 0 and 1 of the group 'data of part 0.0'")
                     && ContainsSubstring("both on device 1")));
}

TEST_CASE("a device that is not there is refused", "[collective][nccl]") {
  auto groups = groups_of({});
  CHECK_THROWS_MATCHES(make_nccl_communicator(groups, {"all", axis::data, 0, 1, 4}),
                       kernels::backend_missing,
                       MessageMatches(ContainsSubstring("there is no device 4")));
}

TEST_CASE("memory that no device has cannot be held", "[collective][nccl]") {
  auto groups = groups_of({});
  std::vector<std::string> told(2);
  as_nccl_ranks(groups, 2, [&](nccl_communicator& mine, stream&) {
    std::vector<char> host(16);
    told[std::size_t(mine.rank())] = ending([&] { mine.hold(host.data(), host.size()); });
  });
  CHECK_THAT(told[0], ContainsSubstring("registering memory"));
  CHECK_THAT(told[1], ContainsSubstring("registering memory"));
}

TEST_CASE("an NCCL that is too old is refused with what to do", "[collective][nccl]") {
  CHECK_NOTHROW(require_nccl(open_nccl().version()));
  CHECK_NOTHROW(require_nccl(21900));
  CHECK_THROWS_MATCHES(require_nccl(21805),
                       kernels::backend_missing,
                       MessageMatches(ContainsSubstring("NCCL 2.18.5 is too old")
                                      && ContainsSubstring("2.19.0 or later")));
}
