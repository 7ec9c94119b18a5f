#include "runtime/template/evaluator.hpp"

#include "runtime/template/builtins.hpp"
#include "runtime/template/text.hpp"

#include <algorithm>

namespace troupe::runtime::jinja {

namespace {

/// The steps of a search for a name of `bytes` among `count` names, which may be as long.
std::size_t steps_of_search(std::size_t count, std::size_t bytes) {
  return count * (64 + bytes) / 4096;
}

}  // namespace

/// RAII: enters a new scope and leaves it.
class evaluator::within {
 public:
  within(evaluator& of, std::shared_ptr<frame> outer)
      : of_(of), before_(std::exchange(of.frame_, std::make_shared<frame>())) {
    of.frame_->outer = std::move(outer);
  }
  explicit within(evaluator& of) : within(of, of.frame_) {}
  ~within() { of_.frame_ = std::move(before_); }
  within(const within&) = delete;
  within& operator=(const within&) = delete;

 private:
  evaluator& of_;
  std::shared_ptr<frame> before_;
};

evaluator::evaluator(meter& with, variables given, std::time_t now)
    : use(with), given_(std::move(given)), now_(now) {}

void evaluator::run(const statements& all) {
  run_all(all);
}

value evaluator::make_name_space() {
  use.step(8);
  return &name_spaces_.emplace_back();
}

void evaluator::write(const std::string& text) {
  use.make_text(text.size());
  use.write(out_->size(), text.size());
  *out_ += text;
}

evaluator::flow evaluator::run_all(const statements& all) {
  const meter::level deeper(use);
  for (const auto& one : all)
    if (const auto how = run_one(one); how != flow::on)
      return how;
  return flow::on;
}

evaluator::flow evaluator::run_one(const statement& one) {
  use.step();
  use.line = one.line;
  switch (one.kind) {
    case statement_kind::text:
      write(one.text);
      break;
    case statement_kind::output:
      write(text_of(use, evaluate(*one.first)));
      break;
    case statement_kind::for_loop:
      return run_for(one);
    case statement_kind::condition:
      return run_condition(one);
    case statement_kind::set:
      assign(*one.target, evaluate(*one.first));
      break;
    case statement_kind::set_block:
      run_set_block(one);
      break;
    case statement_kind::macro:
      define_macro(one);
      break;
    case statement_kind::filter_block:
      run_filter_block(one);
      break;
    case statement_kind::with:
      return run_with(one);
    case statement_kind::generation:
      run_generation(one);
      break;
    case statement_kind::break_loop:
      return flow::breaks;
    case statement_kind::continue_loop:
      return flow::continues;
  }
  return flow::on;
}

values evaluator::loop_items(const statement& one) {
  auto all = elements_of(use, evaluate(*one.first));
  if (one.second == nullptr)
    return all;
  values out;
  for (const auto& item : all) {
    const within inner(*this);
    assign(*one.target, item);
    if (truth(evaluate(*one.second)))
      out.push_back(item);
  }
  return out;
}

evaluator::flow evaluator::run_for(const statement& one) {
  const auto state = std::make_shared<loop_state>();
  state->items = loop_items(one);
  const bool empty = state->items.empty();
  const value loop(state);
  for (; state->index < state->items.size(); ++state->index) {
    const within inner(*this);
    use.step();
    set("loop", loop);
    assign(*one.target, state->items[state->index]);
    if (run_all(one.body) == flow::breaks)
      break;
  }
  if (!empty)
    return flow::on;
  const within inner(*this);
  return run_all(one.otherwise);
}

evaluator::flow evaluator::run_condition(const statement& one) {
  for (const auto& [condition, body] : one.branches) {
    use.line = condition->line;
    if (truth(evaluate(*condition)))
      return run_all(body);
  }
  return run_all(one.otherwise);
}

std::string evaluator::buffered(const statements& body, flow& how) {
  std::string text;
  auto* const before = std::exchange(out_, &text);
  const within inner(*this);
  try {
    how = run_all(body);
  } catch (...) {
    out_ = before;
    throw;
  }
  out_ = before;
  return text;
}

void evaluator::run_set_block(const statement& one) {
  auto how = flow::on;
  value text(buffered(one.body, how));
  assign(*one.target, one.first == nullptr ? text : apply_filters(*one.first, text));
}

void evaluator::run_filter_block(const statement& one) {
  auto how = flow::on;
  const value text(buffered(one.body, how));
  write(text_of(use, apply_filters(*one.first, text)));
}

evaluator::flow evaluator::run_with(const statement& one) {
  values all;
  for (const auto& each : one.assignments)
    all.push_back(evaluate(*each.to));
  const within inner(*this);
  for (std::size_t i = 0; i < all.size(); ++i)
    assign(*one.assignments[i].target, all[i]);
  return run_all(one.body);
}

void evaluator::run_generation(const statement& one) {
  const within inner(*this);
  const auto begin = written_.size();
  run_all(one.body);
  generated_.push_back({begin, written_.size()});
}

void evaluator::define_macro(const statement& one) {
  auto made = std::make_shared<function>();
  made->name = one.text;
  // A weak pointer avoids a cycle: the frame holds the macro.
  made->call = [&one, where = std::weak_ptr<frame>(frame_)](evaluator& with,
                                                            const arguments& given) {
    const auto outer = where.lock();
    if (outer == nullptr)
      with.use.fail(fmt::format("the macro {} is called after the end of its block", one.text));
    return with.call_macro(one, outer, given);
  };
  set(one.text, std::shared_ptr<const function>(std::move(made)));
}

value evaluator::call_macro(const statement& macro,
                            const std::shared_ptr<frame>& where,
                            const arguments& given) {
  const auto line = use.line;
  std::string text;
  auto* const before = std::exchange(out_, &text);
  const within inner(*this, where);
  try {
    bind(macro, given);
    run_all(macro.body);
  } catch (...) {
    out_ = before;
    throw;
  }
  out_ = before;
  use.line = line;
  return text;
}

void evaluator::bind(const statement& macro, const arguments& given) {
  const auto& parameters = macro.parameters;
  for (const auto& [name, to] : given.named)
    use.step(2 * steps_of_search(parameters.size(), name.size()));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& one = parameters[i];
    const auto named = std::find_if(
        given.named.begin(), given.named.end(), [&](const auto& x) { return x.first == one.name; });
    if (i < given.positional.size()) {
      if (named != given.named.end())
        use.fail(fmt::format("macro {}: '{}' is given twice", macro.text, one.name));
      set(one.name, given.positional[i]);
    } else if (named != given.named.end())
      set(one.name, named->second);
    else if (one.otherwise != nullptr)
      set(one.name, evaluate(*one.otherwise));
    else
      set(one.name,
          undefined_because(fmt::format("parameter '{}' was not provided", in_message(one.name))));
  }
  bind_the_rest(macro, given);
}

void evaluator::bind_the_rest(const statement& macro, const arguments& given) {
  const auto& parameters = macro.parameters;
  values more;
  for (auto i = parameters.size(); i < given.positional.size(); ++i)
    more.push_back(given.positional[i]);
  if (!more.empty() && !macro.takes_more)
    use.fail(fmt::format("macro {} takes {} arguments, not {}",
                         macro.text,
                         parameters.size(),
                         given.positional.size()));
  dictionary_builder named(use);
  for (const auto& [name, to] : given.named) {
    if (std::any_of(parameters.begin(), parameters.end(), [&name = name](const auto& x) {
          return x.name == name;
        }))
      continue;
    if (!macro.takes_more_named)
      use.fail(fmt::format("macro {} takes no argument '{}'", macro.text, name));
    named.set(value(name), to);
  }
  if (macro.takes_more)
    set("varargs", make_sequence(use, std::move(more), form::tuple));
  if (macro.takes_more_named)
    set("kwargs", named.finish());
}

void evaluator::set(const std::string& name, const value& to) {
  use.step(name.size() / 64 + steps_of_search(frame_->names.size(), name.size()));
  for (auto& [known, was] : frame_->names)
    if (known == name) {
      was = to;
      return;
    }
  frame_->names.emplace_back(name, to);
}

const value* evaluator::find(const std::string& name) const {
  for (const auto* frame = frame_.get(); frame != nullptr; frame = frame->outer.get()) {
    use.step(1 + steps_of_search(frame->names.size(), name.size()));
    for (const auto& [known, is] : frame->names)
      if (known == name)
        return &is;
  }
  const auto at = given_.find(name);
  return at == given_.end() ? nullptr : &at->second;
}

void evaluator::assign(const expression& target, const value& to) {
  if (target.kind == expression_kind::name)
    return set(target.text, to);
  if (target.kind == expression_kind::attribute) {
    const auto of = evaluate(*target.parts[0]);
    const auto* names = of.as<name_space*>();
    if (names == nullptr)
      use.fail(fmt::format("cannot assign to an attribute of a '{}': only a namespace allows it",
                           type_name(of)));
    if (target.text.starts_with('_'))
      use.fail(fmt::format("a namespace takes no name that begins with '_': '{}'", target.text));
    use.make_text(target.text.size());
    (*names)->attributes[target.text] = to;
    return;
  }
  require_defined(*this, to);
  const auto items = elements_of(use, to);
  if (items.size() != target.parts.size())
    use.fail(fmt::format("{} values are assigned to {} names", items.size(), target.parts.size()));
  for (std::size_t i = 0; i < items.size(); ++i)
    assign(*target.parts[i], items[i]);
}

}  // namespace troupe::runtime::jinja
