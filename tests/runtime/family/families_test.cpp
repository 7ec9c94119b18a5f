#include "runtime/family/families.hpp"

#include "runtime/core/error.hpp"
#include "runtime/model/stages.hpp"
#include "tests/support/broken.hpp"
#include "tests/support/fixed_family.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a model is a value of its family", "[family]") {
  model_description x = fixed_settings{3};
  CHECK(&x.family() == &fixed());
  CHECK(x.layers() == 3);
  CHECK(x.vocabulary() == 29);
  const auto y = x;
  CHECK(y == x);
  x.as<fixed_settings>().layers = 2;
  CHECK(y != x);
  CHECK(x != model_description(gpt_config()));
  CHECK_BREAKS("FAMILY-1", x.as<gpt_config>());
  CHECK(&model_description().family() == &default_family());
}

TEST_CASE("files name another family than the default one", "[family]") {
  const model_description x = fixed_settings{3};
  CHECK(to_json(x) == R"({"family":"fixed","layers":3})");
  CHECK(model_from_json(to_json(x)) == x);
  const auto gpt = default_family().smallest(2);
  CHECK(to_json(gpt) == to_json(gpt.as<gpt_config>()));
  CHECK(model_from_json(to_json(gpt)) == gpt);
  CHECK_THROWS_WITH(
      model_from_json(R"({"family":"unheard-of"})"),
      ContainsSubstring("unknown model family 'unheard-of'; known: gpt, bert, t5, fixed"));
  CHECK_THROWS_AS(model_from_json(R"({"family":1})"), input_error);
}

TEST_CASE("a family has a name of its own", "[family]") {
  const auto& own = fixed();
  CHECK(&find_family("fixed") == &own);
  CHECK(&find_family("gpt") == &default_family());
  CHECK_THROWS_WITH(add_family(own), ContainsSubstring("'fixed'"));
}

TEST_CASE("sums over the specs of a model agree with the formulas of its family", "[family]") {
  const auto gpt = default_family().smallest(3);
  const model_description same = fixed_settings{3};
  CHECK(parameter_count(same) == parameter_count(gpt));
  CHECK(same.letters() == gpt.letters());
}

TEST_CASE("the letters of a model with far too many layers are no model of that size", "[family]") {
  for (const auto* family : families()) {
    CAPTURE(family->name());
    const auto model = family->smallest(2'000'000'000);
    CHECK(units_of(model.letters()) >= 2'000'000'000);
  }
}
