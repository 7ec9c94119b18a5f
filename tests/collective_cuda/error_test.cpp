// Tests of NCCL errors: all ranks get the error, with its rank, group and operation.

#include "tests/support/nccl_endings.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

/// Plants faults in the emulated device for its lifetime.
struct planted {
  explicit planted(const std::string& faults) { emulator::plant_faults(faults); }
  ~planted() { emulator::plant_faults(""); }
  planted(const planted&) = delete;
  planted& operator=(const planted&) = delete;
};

}  // namespace

TEST_CASE("an NCCL error names the rank, the group and the operation, and ends the group",
          "[collective][nccl]") {
  struct fault {
    const char* planted;
    const char* doing;
  };
  const auto [where, doing] = GENERATE(fault{"ncclCommInitRankConfig@2=2", "connecting"},
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
      [&](nccl_communicator& mine, stream& stream) {
        auto x = ones(stream, 100);
        told[std::size_t(mine.rank())] = ending([&] {
          for (;;) {
            sum(mine, stream, x);
            stream.finish();
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

TEST_CASE("a failed ncclGetUniqueId ends its rank; the end of the generation releases the others",
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

TEST_CASE("NCCL's watch finds an asynchronous error: two processes with different sizes",
          "[collective][nccl]") {
  // Two lists of groups share only the id, like two processes.
  const cancel_token token;
  const auto ids = std::make_shared<nccl_meeting>();
  std::vector<std::unique_ptr<nccl_groups>> processes;
  for (int p = 0; p < 2; ++p)
    processes.push_back(
        std::make_unique<nccl_groups>(token, 1, collective_mode::fast, ids, ordered_scratch));
  std::vector<std::string> told(2);
  on_threads(2, [&](int r) {
    stream stream(kernels::backend::cuda, 1, {}, r);
    const auto mine
        = make_nccl_communicator(*processes[std::size_t(r)], {"both", axis::data, r, 2, r});
    auto x = ones(stream, 100), y = ones(stream, 10 + r);
    sum(*mine, stream, x);
    ensure(elements_of<float>(stream, x) == std::vector<float>(100, 2), "sum over processes");
    told[std::size_t(r)] = ending([&] {
      sum(*mine, stream, y);
      stream.finish();  // returns when the watch has found the error
      sum(*mine, stream, x);
    });
  });
  for (const auto& text : told)
    CHECK_THAT(text, StartsWith("NCCL: rank ") && ContainsSubstring("summing"));
}
