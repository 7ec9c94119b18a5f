#include "runtime/family/families.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/gpt/gpt.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <any>
#include <tuple>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A family with the models of a GPT of one size.
struct fixed_settings {
  std::int64_t layers = 2;

  friend bool operator==(const fixed_settings&, const fixed_settings&) = default;
  static constexpr auto fields() { return std::tuple(row("layers", &fixed_settings::layers)); }
};

const model_family& family_of(const fixed_settings& settings);

class fixed_family final : public model_family {
 public:
  std::string_view name() const override { return "fixed"; }
  std::string_view title() const override { return "a fixed model"; }
  model_description defaults() const override { return fixed_settings(); }
  model_description smallest(int layers) const override { return fixed_settings{layers}; }
  model_spec spec(const model_description& model, const extension& own) const override {
    return gpt_of(model).spec(own);
  }
  model_sizes sizes(const model_description& model) const override {
    return gpt_family().sizes(gpt_of(model));
  }
  void set_vocabulary(model_description&, std::int64_t, std::int64_t) const override {}
  std::vector<std::string> validate(const model_description& model) const override {
    return troupe::runtime::validate(gpt_of(model));
  }
  std::string to_json(const model_description& model) const override {
    return fmt::format("{{\"layers\":{}}}", model.as<fixed_settings>().layers);
  }
  model_description from_json(const std::string& text) const override {
    return fixed_settings{text == "{\"layers\":3}" ? 3 : 2};
  }
  std::vector<shared_size> shared_by_tensor_ranks(const model_description&) const override {
    return {};
  }
  std::string describe(const model_description&, const extension&) const override {
    return "model       fixed\n";
  }
  std::any asked() const override { return fixed_settings(); }
  std::vector<required_setting> required() const override { return {}; }
  std::optional<model_description> resolve(const std::any& asked,
                                           const given_settings&,
                                           std::vector<std::string>&) const override {
    return std::any_cast<const fixed_settings&>(asked);
  }
  void write_back(const model_description&, std::any&, given_settings&, bool) const override {}

 private:
  static model_description gpt_of(const model_description& model) {
    return gpt_family().smallest(int(model.as<fixed_settings>().layers));
  }
};

const model_family& fixed() {
  static const fixed_family only;
  static const bool added = (add_family(only), true);
  static_cast<void>(added);
  return only;
}

const model_family& family_of(const fixed_settings& /*settings*/) {
  return fixed();
}

}  // namespace

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
  CHECK_THROWS_WITH(model_from_json(R"({"family":"nobody"})"),
                    ContainsSubstring("no model family 'nobody', but gpt, fixed"));
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
