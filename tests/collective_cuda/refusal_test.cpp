// Tests of refused groups; the error says what to do.

#include "tests/support/nccl_endings.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

TEST_CASE("two ranks of a group on one device are refused", "[collective][nccl]") {
  auto groups = groups_of({});
  const auto first = make_nccl_communicator(groups, {"data of part 0.0", axis::data, 0, 2, 1});
  CHECK_THROWS_MATCHES(
      make_nccl_communicator(groups, {"data of part 0.0", axis::data, 1, 2, 1}),
      input_error,
      MessageMatches(ContainsSubstring("one rank per device")
                     && ContainsSubstring("ranks 0 and 1 of the group 'data of part 0.0'")
                     && ContainsSubstring("both on device 1")));
}

TEST_CASE("a missing device is refused", "[collective][nccl]") {
  auto groups = groups_of({});
  CHECK_THROWS_MATCHES(make_nccl_communicator(groups, {"all", axis::data, 0, 1, 4}),
                       kernels::backend_missing,
                       MessageMatches(ContainsSubstring("there is no device 4")));
}

TEST_CASE("host memory cannot be registered", "[collective][nccl]") {
  auto groups = groups_of({});
  std::vector<std::string> told(2);
  as_nccl_ranks(groups, 2, [&](nccl_communicator& mine, stream&) {
    std::vector<char> host(16);
    told[std::size_t(mine.rank())]
        = ending([&] { static_cast<void>(mine.hold(host.data(), host.size())); });
  });
  CHECK_THAT(told[0], ContainsSubstring("registering memory"));
  CHECK_THAT(told[1], ContainsSubstring("registering memory"));
}

TEST_CASE("an old NCCL is refused with the required version", "[collective][nccl]") {
  CHECK_NOTHROW(require_nccl(open_nccl().version()));
  CHECK_NOTHROW(require_nccl(21900));
  CHECK_THROWS_MATCHES(require_nccl(21805),
                       kernels::backend_missing,
                       MessageMatches(ContainsSubstring("NCCL 2.18.5 is too old")
                                      && ContainsSubstring("2.19.0 or later")));
}
