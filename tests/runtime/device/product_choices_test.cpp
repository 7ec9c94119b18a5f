#include "runtime/device/product_choices.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/places.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <fstream>

using namespace troupe;
using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

product_choice choice(const std::string& name, char digit, double microseconds = 61.5) {
  return {name, std::string(128, digit), microseconds, 8};
}

/// Sets an environment variable for the duration of a test.
class variable_of_environment {
 public:
  variable_of_environment(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name))
      before_ = before;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~variable_of_environment() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  variable_of_environment(const variable_of_environment&) = delete;
  variable_of_environment& operator=(const variable_of_environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("product choices survive a round trip through their file", "[device][products]") {
  const tests::scratch_folder folder;
  const auto path = folder.path() / "deep" / "products.json";
  CHECK(load_product_choices(path).empty());
  add_product_choices(path, {choice("b", '2', 0), choice("a", '1', 1.0 / 3)});
  CHECK(load_product_choices(path) == std::vector{choice("a", '1', 1.0 / 3), choice("b", '2', 0)});
}

TEST_CASE("a product choice is made once: the entry in the file stays", "[device][products]") {
  const tests::scratch_folder folder;
  const auto path = folder.path() / "products.json";
  add_product_choices(path, {choice("a", '1')});
  add_product_choices(path, {choice("a", '9'), choice("c", '3')});
  CHECK(load_product_choices(path) == std::vector{choice("a", '1'), choice("c", '3')});
}

TEST_CASE("a product without an algorithm is stored like a choice", "[device][products]") {
  const tests::scratch_folder folder;
  const auto path = folder.path() / "products.json";
  const product_choice none{"a", kernels::no_algorithm, 0, 0};
  add_product_choices(path, {none});
  CHECK(load_product_choices(path) == std::vector{none});
  add_product_choices(path, {choice("a", '1')}, standing::used);
  CHECK(load_product_choices(path) == std::vector{choice("a", '1')});
}

TEST_CASE("choices of a build with a GELU gradient kernel are recognised", "[device][products]") {
  const auto forward = choice("forward bf16 bias+gelu+z 8 x 56 x 24, aligned 16 16 16 16", '1');
  const auto plain = choice("backward_input bf16 8 x 24 x 56, aligned 16 16 16 16", '2');
  auto gradient = choice("backward_input bf16 gelu_gradient 8 x 24 x 56, aligned 16 16 16 16", '3');
  CHECK(lack_gelu_gradient({forward, plain}));
  CHECK_FALSE(lack_gelu_gradient({forward, gradient}));
  gradient.algorithm = kernels::no_algorithm;
  CHECK_FALSE(lack_gelu_gradient({forward, plain, gradient}));
  CHECK_FALSE(lack_gelu_gradient({plain}));
  CHECK_FALSE(lack_gelu_gradient({}));
}

TEST_CASE("nothing is written when all product choices are known", "[device][products]") {
  const tests::scratch_folder folder;
  const auto path = folder.path() / "products.json";
  add_product_choices(path, {choice("a", '1')});
  const auto written = std::filesystem::last_write_time(path);
  add_product_choices(path, {choice("a", '1')});
  add_product_choices(path, {});
  CHECK(std::filesystem::last_write_time(path) == written);
}

TEST_CASE("the file of product choices has the documented format", "[device][products]") {
  std::ifstream page(troupe::tests::source_dir() + "/docs/formats/products.md");
  std::string example, line;
  while (std::getline(page, line)) {
    if (line.starts_with("    {") || (!example.empty() && line.starts_with("    ")))
      example += line.substr(4) + "\n";
    else if (!example.empty())
      break;
  }
  const tests::scratch_folder folder;
  const auto path = folder.path() / "example.json";
  write_text(path, example);
  const auto choices = load_product_choices(path);
  REQUIRE(choices.size() == 1);
  CHECK(choices[0].microseconds == 61.5);
  const auto again = folder.path() / "again.json";
  add_product_choices(again, choices);
  CHECK(read_text(again) == example);
}

TEST_CASE("a damaged file of product choices is refused by name and kept", "[device][products]") {
  const tests::scratch_folder folder;
  const auto path = folder.path() / "products.json";
  add_product_choices(path, {choice("a", '1'), choice("b", '2')});
  const std::string good = read_text(path);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string out = good;
    out.replace(out.find(from), from.size(), to);
    return out;
  };
  const std::vector<std::pair<std::string, std::string>> damaged = {
      {"", "not a file of product choices"},
      {"[]", "not a file of product choices"},
      {good.substr(0, good.size() / 2), "cut off"},
      {with("troupe product", "troupe"), "not a file of product choices"},
      {with("\"version\": 1", "\"version\": 2"), "another version"},
      {with("\"choices\"", "\"choses\""), "no list 'choices'"},
      {with("\"a\"", "\"b\""), "has two choices"},
      {with("\"a\"", "\"\""), "choice 0: its 'product' is empty"},
      {with("\"a\"", "7"), "choice 0 is not an object with"},
      {with("1111", "111g"), "128 hexadecimal digits"},
      {with("61.5", "-61.5"), "choice 0: its 'microseconds'"},
      {with("\"candidates\": 8", "\"candidates\": 0"), "choice 0: its 'microseconds'"},
  };
  for (const auto& [text, complaint] : damaged) {
    INFO(text);
    write_text(path, text);
    CHECK_THROWS_WITH(load_product_choices(path),
                      ContainsSubstring(path.string()) && ContainsSubstring(complaint)
                          && ContainsSubstring("measured again"));
    CHECK_THROWS_AS(add_product_choices(path, {choice("c", '3')}), input_error);
    CHECK(read_text(path) == text);
  }
}

TEST_CASE("product choices are stored in the user's cache folder", "[device][products]") {
  const variable_of_environment home("HOME", "/home/ada");
  {
    const variable_of_environment cache("XDG_CACHE_HOME", "/fast");
    CHECK(default_product_choices() == "/fast/troupe/products.json");
  }
  for (const char* const unusable : {static_cast<const char*>(nullptr), "", "relative"}) {
    const variable_of_environment cache("XDG_CACHE_HOME", unusable);
    CHECK(default_product_choices() == "/home/ada/.cache/troupe/products.json");
    const variable_of_environment nowhere("HOME", nullptr);
    CHECK(default_product_choices().empty());
  }
}
