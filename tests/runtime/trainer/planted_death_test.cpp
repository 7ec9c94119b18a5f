// Who can be planted to die how, and when.

#include "runtime/trainer/planted_death.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <string>

using namespace troupe::runtime;

TEST_CASE("whoever comes to a moment by itself can hang there", "[trainer]") {
  const std::string text = GENERATE("lane:0.1@4:forward:hang",
                                    "wire:0.1@4:reduce:hang",
                                    "stage:0.1@4:vote:hang",
                                    "replica:1@4:decided:hang",
                                    "loader@4:forward:hang",
                                    "checkpointer@4:save:hang",
                                    "monitor@4:acknowledged:hang");
  CHECK(planted_death_from(text).how == death_kind::by_hanging);
}

TEST_CASE("a hang where nobody would come is refused", "[trainer]") {
  const std::string text = GENERATE("lane:0.1@4:decided:hang",
                                    "wire:0.1@4:forward:hang",
                                    "stage:0.1@4:reduce:hang",
                                    "loader@4:vote:hang",
                                    "checkpointer@4:forward:hang",
                                    "monitor@4:forward:hang",
                                    "supervisor@4:vote:hang",
                                    "node@4:forward:hang");
  CHECK_THROWS_AS(planted_death_from(text), input_error);
}
