#include "runtime/device/product_choices.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace troupe::runtime {

namespace {

constexpr const char* format = "troupe product choices";
constexpr int version = 1;
constexpr std::size_t algorithm_digits = 128;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what) {
  throw input_error(
      "cannot read the product choices in '{}': {}. The file is a cache: remove it, and the "
      "algorithms are measured again",
      path.string(),
      what);
}

bool is_algorithm(const std::string& text) {
  return text.size() == algorithm_digits
         && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

product_choice choice_of(const nlohmann::json& entry) {
  product_choice out;
  entry.at("product").get_to(out.product);
  entry.at("algorithm").get_to(out.algorithm);
  entry.at("microseconds").get_to(out.microseconds);
  const auto candidates = whole_number_in(entry.at("candidates"));
  if (!candidates || !std::in_range<int>(*candidates))
    throw input_error("its 'candidates' should be a whole number, but is {}",
                      json_text_replacing(entry.at("candidates")));
  out.candidates = int(*candidates);
  if (out.product.empty())
    throw input_error("its 'product' is empty");
  const bool none = out.algorithm == kernels::no_algorithm;
  if (!none && !is_algorithm(out.algorithm))
    throw input_error("its 'algorithm' should be {} hexadecimal digits or '{}', but is '{}'",
                      algorithm_digits,
                      kernels::no_algorithm,
                      out.algorithm);
  if (!(out.microseconds >= 0) || !std::isfinite(out.microseconds)
      || out.candidates < (none ? 0 : 1))
    throw input_error("its 'microseconds' or 'candidates' is out of range");
  return out;
}

std::string text_of(const std::map<std::string, product_choice>& choices) {
  nlohmann::ordered_json entries = nlohmann::json::array();
  for (const auto& [name, choice] : choices)
    entries.push_back({{"product", choice.product},
                       {"algorithm", choice.algorithm},
                       {"microseconds", choice.microseconds},
                       {"candidates", choice.candidates}});
  const nlohmann::ordered_json all{
      {"format", format}, {"version", version}, {"choices", std::move(entries)}};
  return json_text_replacing(all, 1, json_characters::ascii) + "\n";
}

}  // namespace

std::filesystem::path default_product_choices() {
  const auto named = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  std::filesystem::path cache = named("XDG_CACHE_HOME");
  if (!cache.is_absolute()) {  // the XDG specification ignores relative paths
    const auto home = named("HOME");
    if (home.empty())
      return {};
    cache = home / ".cache";
  }
  return cache / "troupe" / "products.json";
}

std::vector<product_choice> load_product_choices(const std::filesystem::path& path) {
  std::error_code failed;
  if (!std::filesystem::exists(path, failed))
    return {};
  const auto all = json_value_or_discarded(read_text(path));
  if (!all.is_object() || all.value("format", nlohmann::json()) != format)
    refuse(path, "it is not a file of product choices, or is cut off");
  if (all.value("version", nlohmann::json()) != version)
    refuse(path, "it is of another version than 1, which this program reads");
  const auto entries = all.find("choices");
  if (entries == all.end() || !entries->is_array())
    refuse(path, "it has no list 'choices'");
  std::vector<product_choice> out;
  std::map<std::string, std::size_t> seen;
  for (const auto& entry : *entries) {
    const auto number = std::to_string(out.size());
    try {
      out.push_back(choice_of(entry));
    } catch (const nlohmann::json::exception&) {
      refuse(path,
             "choice " + number
                 + " is not an object with 'product', 'algorithm', 'microseconds', 'candidates'");
    } catch (const input_error& e) {
      refuse(path, "choice " + number + ": " + e.what());
    }
    if (const auto [at, is_new] = seen.emplace(out.back().product, out.size()); !is_new)
      refuse(path, "the product '" + at->first + "' has two choices");
  }
  return out;
}

bool lack_gelu_gradient(const std::vector<product_choice>& choices) {
  const auto any = [&](const char* part) {
    return std::any_of(choices.begin(), choices.end(), [&](const auto& x) {
      return x.product.find(part) != std::string::npos;
    });
  };
  return any("gelu+z ") && !any("gelu_gradient ");
}

void add_product_choices(const std::filesystem::path& path,
                         const std::vector<product_choice>& more,
                         standing which) {
  std::map<std::string, product_choice> all;
  for (auto& choice : load_product_choices(path))
    all.emplace(choice.product, choice);
  bool changed = false;
  for (const auto& choice : more) {
    const auto [at, is_new] = all.emplace(choice.product, choice);
    const bool other
        = !is_new && which == standing::used && at->second.algorithm != choice.algorithm;
    if (other)
      at->second = choice;
    changed = changed || is_new || other;
  }
  if (!changed)
    return;
  if (path.has_parent_path())
    make_folder(path.parent_path());
  file_writer out(path);
  out.write(text_of(all));
  out.commit();
}

}  // namespace troupe::runtime
