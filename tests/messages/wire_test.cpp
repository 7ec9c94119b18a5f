// Every message is serialized and read again, as between processes.

#include "messages/core/error.hpp"
#include "messages/core/through_bytes.hpp"
#include "messages/protocol/actors.hpp"
#include "tests/messages/example.hpp"

#include <caf/actor_system_config.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/send.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

using namespace troupe::tests;
using namespace troupe;
using namespace troupe::messages;

namespace {

template <class Message>
void check_one(wire& w) {
  for (const bool extreme : {false, true}) {
    const auto sent = example<Message>(w, extreme);
    INFO(caf::type_name<Message>::value);
    CHECK_FALSE(sent == Message{});
    CHECK(through_bytes(w.system, sent) == sent);
  }
}

template <class... Values>
std::vector<char> bytes_of(wire& w, Values... values) {
  std::vector<char> out;
  caf::binary_serializer sink{w.system, out};
  CHECK_FALSE(sink(values...));
  return out;
}

using all_types = caf::id_block::troupe_messages;

template <std::size_t... I>
void check_all(wire& w, std::index_sequence<I...>) {
  (check_one<typename caf::type_by_id<caf::type_id_t(all_types::begin + I)>::type>(w), ...);
}

}  // namespace

TEST_CASE_METHOD(wire,
                 "every registered message survives a round trip through bytes",
                 "[messages]") {
  check_all(*this, std::make_index_sequence<all_types::end - all_types::begin>());
}

TEST_CASE_METHOD(wire,
                 "MESSAGE-2: members are on the wire in the order of their declaration",
                 "[messages]") {
  CHECK(bytes_of(*this, chosen{.generation = {}, .step = runtime::step_id(2), .number = 3})
        == bytes_of(*this,
                    std::uint64_t(0),
                    std::uint64_t(2),
                    std::uint8_t(0),
                    std::uint32_t(0),
                    std::uint32_t(0),
                    std::uint16_t(0),
                    std::uint32_t(0),
                    false,
                    std::uint64_t(3)));
}

TEST_CASE_METHOD(wire,
                 "MESSAGE-2: the bytes of a double are those of CAF, for zero and normal numbers",
                 "[messages]") {
  using limits = std::numeric_limits<double>;
  for (const double x : {0.0, 1.0, -2.5, 1e-3, 1e300, limits::min(), limits::max()})
    CHECK(bytes_of(*this, runtime::loss_part{x, 1, 2, 3, 4})
          == bytes_of(*this, x, 1.0, std::int32_t(2), std::int32_t(3), std::int64_t(4)));
}

TEST_CASE_METHOD(wire,
                 "MESSAGE-1: a message is refused if its serializer forgets a field",
                 "[messages]") {
  CHECK(through_bytes(system, tests::forgetful{3, 0}) == tests::forgetful{3, 0});
  CHECK_THROWS_WITH(through_bytes(system, tests::forgetful{3, 4}),
                    Catch::Matchers::ContainsSubstring("MESSAGE-1")
                        && Catch::Matchers::ContainsSubstring("forgetful"));
}

TEST_CASE_METHOD(
    wire,
    "a message with NaN or infinity survives a round trip, though NaN does not equal itself",
    "[messages]") {
  auto sent = example<committed>(*this);
  sent.report.loss = std::numeric_limits<double>::quiet_NaN();
  sent.report.grad_norm = std::numeric_limits<double>::infinity();
  const auto received = through_bytes(system, sent);
  CHECK(std::isnan(received.report.loss));
  CHECK(received.report.grad_norm == sent.report.grad_norm);
  CHECK(received.report.state == sent.report.state);
}

TEST_CASE_METHOD(wire,
                 "a message with the handle of an ended actor passes the check",
                 "[messages]") {
  const auto sent = example<stage_spawned>(*this);
  caf::anon_send_exit(actor, caf::exit_reason::kill);
  dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler()).run();
  CHECK(through_bytes(system, sent) == sent);
}

TEST_CASE("an error keeps its code and text", "[messages]") {
  const auto e = make_error(ec::refused, "no such file");
  CHECK(is(e, ec::refused));
  CHECK_FALSE(is(e, ec::cancelled));
  CHECK_FALSE(is(caf::error(), ec::refused));
  CHECK(text_of(e) == "no such file");
  CHECK(text_of(caf::error()) == "it ended normally");
}
