// The tests of the operator `is`.

#include "runtime/template/builtins.hpp"
#include "runtime/template/text.hpp"

#include <map>

namespace troupe::runtime::jinja {
namespace {

const value& other(evaluator& with, const arguments& given) {
  if (given.positional.size() != 1)
    with.use.fail("a test that compares needs one value to compare with");
  return given.positional.front();
}

std::int64_t whole_of(evaluator& with, const value& of) {
  require_defined(with, of);
  if (!of.whole())
    with.use.fail(fmt::format("a test of integers needs an integer, not a '{}'", type_name(of)));
  return *of.whole();
}

std::int64_t modulo(evaluator& with, const value& of, std::int64_t by) {
  const auto rest = combined(with, "%", whole_of(with, of), by);
  return *rest.whole();
}

bool is_iterable(const value& of) {
  return of.text() != nullptr || of.elements() != nullptr || of.dict() != nullptr
         || of.is<undefined>() || of.is<std::shared_ptr<loop_state>>();
}

bool has_elements(const value& of) {
  const auto* list = of.elements();
  return of.text() != nullptr || of.dict() != nullptr || of.is<undefined>()
         || (list != nullptr && list->is <= form::range);
}

bool is_same(evaluator& with, const value& a, const value& b) {
  if (a.elements() != nullptr || b.elements() != nullptr)
    return a.elements() == b.elements();
  if (a.dict() != nullptr || b.dict() != nullptr)
    return a.dict() == b.dict();
  return std::string_view(type_name(a)) == type_name(b) && equal(with.use, a, b);
}

std::string looked_at(evaluator& with, const value& of) {
  auto out = text_of(with.use, of);
  with.use.look_at(out.size());
  return out;
}

using test = bool (*)(evaluator&, const value&, const arguments&);

#define TROUPE_JINJA_TEST(condition)                                     \
  [](evaluator& with, const value& of, const arguments& given) -> bool { \
    (void)with, (void)of, (void)given;                                   \
    return condition;                                                    \
  }

const std::map<std::string, test, std::less<>>& all_tests() {
  static const auto built = [] {
    std::map<std::string, test, std::less<>> out = {
        {"defined", TROUPE_JINJA_TEST(!of.is<undefined>())},
        {"undefined", TROUPE_JINJA_TEST(of.is<undefined>())},
        {"none", TROUPE_JINJA_TEST(of.is<none>())},
        {"boolean", TROUPE_JINJA_TEST(of.is<bool>())},
        {"true", TROUPE_JINJA_TEST(of.is<bool>() && truth(of))},
        {"false", TROUPE_JINJA_TEST(of.is<bool>() && !truth(of))},
        {"integer", TROUPE_JINJA_TEST(of.is<std::int64_t>())},
        {"float", TROUPE_JINJA_TEST(of.is<double>())},
        {"number", TROUPE_JINJA_TEST(of.real().has_value())},
        {"string", TROUPE_JINJA_TEST(of.text() != nullptr)},
        {"mapping", TROUPE_JINJA_TEST(of.dict() != nullptr)},
        {"iterable", TROUPE_JINJA_TEST(is_iterable(of))},
        {"sequence", TROUPE_JINJA_TEST(has_elements(of))},
        {"callable", TROUPE_JINJA_TEST(of.is<std::shared_ptr<const function>>())},
        {"odd", TROUPE_JINJA_TEST(modulo(with, of, 2) == 1)},
        {"even", TROUPE_JINJA_TEST(modulo(with, of, 2) == 0)},
        {"divisibleby",
         TROUPE_JINJA_TEST(modulo(with, of, whole_of(with, other(with, given))) == 0)},
        {"lower", TROUPE_JINJA_TEST(is_lower(looked_at(with, of)))},
        {"upper", TROUPE_JINJA_TEST(is_upper(looked_at(with, of)))},
        {"in", TROUPE_JINJA_TEST(contains(with.use, other(with, given), of))},
        {"sameas", TROUPE_JINJA_TEST(is_same(with, of, other(with, given)))},
        {"eq", TROUPE_JINJA_TEST(equal(with.use, of, other(with, given)))},
        {"ne", TROUPE_JINJA_TEST(!equal(with.use, of, other(with, given)))},
        {"lt", TROUPE_JINJA_TEST(less(with.use, of, other(with, given)))},
        {"gt", TROUPE_JINJA_TEST(less(with.use, other(with, given), of))},
        {"le",
         TROUPE_JINJA_TEST(less(with.use, of, other(with, given))
                           || equal(with.use, of, other(with, given)))},
        {"ge",
         TROUPE_JINJA_TEST(less(with.use, other(with, given), of)
                           || equal(with.use, of, other(with, given)))},
        {"filter", TROUPE_JINJA_TEST(of.text() != nullptr && is_filter(*of.text()))},
        {"test", TROUPE_JINJA_TEST(of.text() != nullptr && is_test(*of.text()))},
    };
    out["equalto"] = out["=="] = out["eq"];
    out["!="] = out["ne"];
    out["<"] = out["lt"];
    out[">"] = out["gt"];
    out["<="] = out["le"];
    out[">="] = out["ge"];
    out["lessthan"] = out["lt"];
    out["greaterthan"] = out["gt"];
    return out;
  }();
  return built;
}

#undef TROUPE_JINJA_TEST

}  // namespace

bool is_test(std::string_view name) {
  return all_tests().contains(name);
}

bool apply_test(evaluator& with, const std::string& name, const value& of, const arguments& given) {
  const auto found = all_tests().find(name);
  if (found == all_tests().end())
    with.use.fail(fmt::format("the test 'is {}' is not supported", name));
  if (!given.named.empty())
    with.use.fail(fmt::format("the test 'is {}' takes no argument by name", name));
  return found->second(with, of, given);
}

}  // namespace troupe::runtime::jinja
