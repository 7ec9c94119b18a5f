// Tests of the choice of attention: our own kernels or a library in a plug-in.

#include "kernels/cuda/attention_choice.hpp"

#include "tests/support/attention_on_device.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>

using namespace troupe;
using namespace troupe::kernels::cuda;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using kernels::backend_missing;
using kernels::bf16;
using kernels::plugin;

namespace {

const plugin& absent() {
  return plugin::open("that_nobody_made");
}

/// The plug-in of tests/support/attention_plugin.cpp.
const plugin& for_tests() {
  ::setenv("TROUPE_PLUGINS", troupe::tests::test_plugins_dir().c_str(), 1);
  return plugin::open("attention_for_tests");
}

template <class T>
tests::attention_memory<T> one_sequence(std::int64_t D) {
  return {.H = 2, .G = 1, .D = D, .query_lengths = {9}, .key_lengths = {9}};
}

/// Marks all sequences as equally long, as in training.
template <class Op>
Op uniform(Op op) {
  op.shape.uniform = true;
  return op;
}

}  // namespace

TEST_CASE("TROUPE_ATTENTION accepts own, scalar, cudnn and cudnn,own, and refuses other words",
          "[attention]") {
  CHECK(attention_wish_of(nullptr) == attention_wish::library_if_there);
  CHECK(attention_wish_of("") == attention_wish::library_if_there);
  CHECK(attention_wish_of("own") == attention_wish::own);
  CHECK(attention_wish_of("scalar") == attention_wish::scalar);
  CHECK(attention_wish_of("cudnn") == attention_wish::library);
  CHECK(attention_wish_of("cudnn,own") == attention_wish::library_then_own);
  for (const std::string other : {"flash", "own,cudnn", "cudnn,", "cudnn, own", "cudnn,scalar"})
    CHECK_THROWS_MATCHES(
        attention_wish_of(other.c_str()),
        backend_missing,
        MessageMatches(ContainsSubstring("TROUPE_ATTENTION is '" + other + "'")
                       && ContainsSubstring("'own', 'scalar', 'cudnn' or 'cudnn,own'")));
}

TEST_CASE("without a library our own attention is used, unless the library is requested",
          "[attention]") {
  CHECK(attention_by(attention_wish::library_if_there, absent) == nullptr);
  CHECK(attention_by(attention_wish::library_then_own, absent) == nullptr);
  CHECK(attention_by(attention_wish::own, absent) == nullptr);
  CHECK(attention_by(attention_wish::scalar, absent) == nullptr);
  CHECK_THROWS_MATCHES(
      attention_by(attention_wish::library, absent),
      backend_missing,
      MessageMatches(ContainsSubstring("libtroupe_that_nobody_made.so was not found")
                     && ContainsSubstring("Unset it")));
}

TEST_CASE("an available library is used, unless our own attention is requested", "[attention]") {
  auto* const library = attention_by(attention_wish::library_if_there, for_tests);
  REQUIRE(library != nullptr);
  CHECK(library->version() == "a library for tests");
  CHECK(attention_by(attention_wish::library, for_tests) == library);
  CHECK(attention_by(attention_wish::library_then_own, for_tests) == library);
  CHECK(attention_by(attention_wish::own, for_tests) == nullptr);
  CHECK(attention_by(attention_wish::scalar, for_tests) == nullptr);
}

TEST_CASE("the version of attention names the library or our own kernels", "[attention]") {
  auto* const library = attention_by(attention_wish::library, for_tests);
  CHECK(attention_version(attention_wish::library, library) == "attention by a library for tests");
  CHECK(attention_version(attention_wish::library_if_there, nullptr) == "attention by troupe");
  CHECK(attention_version(attention_wish::scalar, nullptr) == "attention by troupe");
  CHECK(attention_version(attention_wish::own, nullptr) == "attention by troupe on tensor cores");
  CHECK(attention_version(attention_wish::library_then_own, library)
        == "attention by a library for tests, else by troupe on tensor cores");
  CHECK(attention_version(attention_wish::library_then_own, nullptr)
        == "attention by troupe on tensor cores");
}

TEST_CASE("our attention uses tensor cores only if requested", "[attention]") {
  CHECK(own_by(attention_wish::own) == own_kernels::tensor_cores);
  CHECK(own_by(attention_wish::library_then_own) == own_kernels::tensor_cores);
  CHECK(own_by(attention_wish::library_if_there) == own_kernels::scalar);
  CHECK(own_by(attention_wish::library) == own_kernels::scalar);
  CHECK(own_by(attention_wish::scalar) == own_kernels::scalar);
}

TEST_CASE("PLUGIN-1: a missing function of a plug-in is a broken promise", "[attention]") {
  REQUIRE(for_tests());
  CHECK_THROWS_MATCHES(for_tests().function<void()>("troupe_no_such_function"),
                       std::logic_error,
                       MessageMatches(ContainsSubstring("PLUGIN-1")));
}

TEST_CASE("the library runs the shapes that it serves, our kernels all others", "[attention]") {
  auto* const library = attention_by(attention_wish::library, for_tests);
  auto m = one_sequence<bf16>(64);
  CHECK(library_for(uniform(m.forward()), library) == library);
  CHECK(library_for(m.forward(), library) == nullptr);  // not declared uniform
  CHECK(library_for(uniform(m.forward()), nullptr) == nullptr);
  CHECK(library_for(uniform(one_sequence<bf16>(72).forward()), library) == nullptr);
  auto empty = uniform(m.forward());
  empty.shape.query_rows = 0;
  CHECK(library_for(empty, library) == nullptr);
  auto biased = uniform(m.forward());
  const float value = 0;
  biased.bias.values = &value;
  CHECK(library_for(biased, library) == nullptr);
  tests::attention_memory<bf16> longer{
      .H = 2, .G = 1, .D = 64, .query_lengths = {16}, .key_lengths = {16}};
  CHECK(tensor_cores_take(longer.forward()));
  auto longer_biased = longer.forward();
  longer_biased.bias.values = &value;
  CHECK_FALSE(tensor_cores_take(longer_biased));

  CHECK(attention_scratch(uniform(m.forward()), 10, library) == 1000);
  CHECK(attention_scratch(uniform(m.forward()), 2000, library) == 2000);
  CHECK(attention_scratch(m.forward(), 10, library) == 10);
  CHECK(attention_scratch(one_sequence<float>(64).forward(), 10, library) == 10);

  tests::device_array<bf16> o(m.o.size() + 8), q(m.q.size());
  tests::device_array<std::byte> workspace(1000);
  const tests::device_queue queue;
  auto op = uniform(m.forward());
  op.o = o.data();
  const auto in = queue.context({workspace.data(), workspace.size()});
  CHECK(run_by_library(op, library, in, op.o, q.data()));
  queue.wait();
  for (std::size_t i = 0; i < m.o.size(); ++i)
    REQUIRE(o.download()[i].bits == 0x4242);
  op.o = o.data() + 1;  // misaligned
  CHECK_FALSE(run_by_library(op, library, in, op.o, q.data()));
}

TEST_CASE(
    "a shape that the library lacks goes to our kernels, or is an error if the library is "
    "requested",
    "[attention]") {
  auto* const library = attention_by(attention_wish::library, for_tests);
  CHECK(library_for(one_sequence<bf16>(80).forward(), library) == nullptr);  // not uniform
  CHECK(library->missing().empty());
  CHECK_NOTHROW(check_missing(*library, attention_wish::library));
  CHECK(library_for(uniform(one_sequence<bf16>(80).forward()), library) == nullptr);
  CHECK(library->missing() == "heads of 80 are not for tests");
  CHECK_NOTHROW(check_missing(*library, attention_wish::library_if_there));
  CHECK_NOTHROW(check_missing(*library, attention_wish::library_then_own));
  CHECK_THROWS_MATCHES(check_missing(*library, attention_wish::library),
                       backend_missing,
                       MessageMatches(ContainsSubstring("heads of 80 are not for tests")
                                      && ContainsSubstring("TROUPE_ATTENTION")
                                      && ContainsSubstring("troupe doctor")));
}

TEST_CASE("the reason for scalar kernels is the head size of values, not the device",
          "[attention]") {
  auto* const library = attention_by(attention_wish::library, for_tests);
  auto m = one_sequence<bf16>(64);
  CHECK_THAT(why_scalar(uniform(m.forward()).shape, library), ContainsSubstring("on this device"));
  m.Dv = 32;
  CHECK_THAT(
      why_scalar(uniform(m.forward()).shape, library),
      ContainsSubstring("another head size for values") && !ContainsSubstring("on this device"));
}

TEST_CASE("ATTENTION-1: attention on a device knows the extents of its rows", "[attention]") {
  auto m = one_sequence<float>(16);
  for (auto extent : {&kernels::attention_shape::query_rows,
                      &kernels::attention_shape::key_rows,
                      &kernels::attention_shape::longest_query,
                      &kernels::attention_shape::longest_key}) {
    auto forward = m.forward();
    forward.shape.*extent = -1;
    auto backward = m.backward();
    backward.shape.*extent = -1;
    const auto broken = MessageMatches(ContainsSubstring("ATTENTION-1"));
    CHECK_THROWS_MATCHES(run(forward, {}), std::logic_error, broken);
    CHECK_THROWS_MATCHES(run(backward, {}), std::logic_error, broken);
    CHECK_THROWS_MATCHES(scratch(forward), std::logic_error, broken);
    CHECK_THROWS_MATCHES(scratch(backward), std::logic_error, broken);
  }
}

TEST_CASE("heads above the limit of our kernels are refused", "[attention]") {
  auto large = one_sequence<float>(257), small = one_sequence<float>(64);
  auto of_values = small.forward();
  of_values.shape.Dv = 257;
  for (const auto& op : {large.forward(), of_values})
    CHECK_THROWS_MATCHES(
        run(op, {}),
        backend_missing,
        MessageMatches(ContainsSubstring("at most 256") && ContainsSubstring("257")));
}
