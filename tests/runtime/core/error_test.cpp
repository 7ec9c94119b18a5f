#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <cerrno>

using namespace troupe::runtime;

TEST_CASE("a broken invariant throws an error that names it", "[core]") {
  CHECK_NOTHROW(ensure(true, "A-1: kept"));
  CHECK_THROWS_WITH(ensure(false, "A-1: kept"), "A-1: kept");
}

TEST_CASE("an input error formats its message and is a troupe error", "[core]") {
  const input_error e("cannot read '{}': {}", "x.idx", system_message(ENOENT));
  const error& base = e;
  CHECK(std::string(base.what()) == "cannot read 'x.idx': No such file or directory");
}
