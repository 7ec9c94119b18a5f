// The evaluator: renders the syntax tree of a template.

#pragma once

#include "runtime/template/tree.hpp"

#include <ctime>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime::jinja {

/// Bytes [begin, end) of a text.
struct text_range {
  std::size_t begin, end;
};

/// Evaluates one rendering; single-threaded.
class evaluator {
 public:
  using variables = std::map<std::string, value, std::less<>>;

  /// `given` are the variables that the template sees; `now` is the time of strftime_now.
  evaluator(meter& with, variables given, std::time_t now);

  /// Renders the whole template.
  void run(const statements& all);

  std::string& written() { return written_; }
  std::vector<text_range>& generated() { return generated_; }  ///< {% generation %}, ascending
  std::time_t now() const { return now_; }

  value evaluate(const expression& of);
  value call(const value& callee, const arguments& with);
  /// Jinja's x.name and x[key]; undefined when missing.
  value attribute_of(const value& of, const std::string& name);
  value item_of(const value& of, const value& key);
  /// Creates a namespace, owned by the evaluator.
  value make_name_space();

  meter& use;

 private:
  enum class flow { on, breaks, continues };
  /// The scope of a for, macro or block; lookups continue in `outer`.
  struct frame {
    std::shared_ptr<frame> outer;
    std::vector<std::pair<std::string, value>> names;
  };
  class within;

  flow run_all(const statements& all);
  flow run_one(const statement& one);
  flow run_for(const statement& one);
  flow run_condition(const statement& one);
  void run_set_block(const statement& one);
  void run_filter_block(const statement& one);
  flow run_with(const statement& one);
  void run_generation(const statement& one);
  void define_macro(const statement& one);
  value call_macro(const statement& macro,
                   const std::shared_ptr<frame>& where,
                   const arguments& given);
  void bind(const statement& macro, const arguments& given);
  void bind_the_rest(const statement& macro, const arguments& given);
  std::string buffered(const statements& body, flow& how);

  values loop_items(const statement& one);
  void write(const std::string& text);
  void assign(const expression& target, const value& to);
  void set(const std::string& name, const value& to);
  const value* find(const std::string& name) const;

  value evaluate_name(const expression& of);
  value evaluate_dict(const expression& of);
  value evaluate_slice(const expression& of);
  value evaluate_call(const expression& of);
  value evaluate_unary(const expression& of);
  value evaluate_comparison(const expression& of);
  value evaluate_join(const expression& of);
  values evaluate_all(const expression& of, std::size_t first = 0);
  arguments evaluate_arguments(const expression& of);
  value apply_filters(const expression& chain, const value& to);
  value loop_attribute(const std::shared_ptr<loop_state>& of, const std::string& name);

  const variables given_;
  const std::time_t now_;
  std::shared_ptr<frame> frame_ = std::make_shared<frame>();
  std::list<name_space> name_spaces_;
  std::string written_;
  std::string* out_ = &written_;
  std::vector<text_range> generated_;
};

}  // namespace troupe::runtime::jinja
