#include "runtime/template/parser.hpp"

#include "runtime/core/error.hpp"
#include "runtime/template/expression_parser.hpp"

#include <array>
#include <initializer_list>

namespace troupe::runtime::jinja {
namespace {

/// Unsupported tags of Jinja: they read other files, or are rare in chat templates.
constexpr std::array<std::string_view, 13> other_tags = {"extends",
                                                         "include",
                                                         "import",
                                                         "from",
                                                         "block",
                                                         "call",
                                                         "do",
                                                         "trans",
                                                         "blocktrans",
                                                         "autoescape",
                                                         "debug",
                                                         "print",
                                                         "pluralize"};

class statement_parser : private expression_parser {
 public:
  using expression_parser::expression_parser;

  statements run() {
    auto out = body({});
    if (now().kind != token_kind::end)
      fail(now().line, "the template does not end here");
    return out;
  }

 private:
  using names = std::initializer_list<std::string_view>;

  /// Parses up to a tag named in `ends`, and leaves its name unread. If `ends` is empty, parses up
  /// to the end.
  statements body(names ends) {
    const level deeper(*this);
    statements out;
    for (;;) {
      const auto line = now().line;
      switch (now().kind) {
        case token_kind::end:
          if (ends.size() > 0)
            fail(line,
                 fmt::format("the template ends, and {{% {} %}} is missing", *(ends.end() - 1)));
          return out;
        case token_kind::text:
          out.push_back({.kind = statement_kind::text, .line = line, .text = take().text});
          break;
        case token_kind::output:
          take();
          out.push_back({.kind = statement_kind::output, .line = line, .first = tuple()});
          expect(token_kind::output_end, "'}}'");
          break;
        default:
          expect(token_kind::block, "a tag");
          for (const auto end : ends)
            if (is_name(end))
              return out;
          out.push_back(tag(line));
          expect(token_kind::block_end, "'%}'");
      }
    }
  }

  statement tag(int line) {
    const auto name = expect_name("the name of a tag");
    if (name == "for")
      return for_loop(line);
    if (name == "if")
      return condition(line);
    if (name == "set")
      return set(line);
    if (name == "macro")
      return macro(line);
    if (name == "filter")
      return filter_block(line);
    if (name == "with")
      return with(line);
    if (name == "generation")
      return generation(line);
    if (name == "break" || name == "continue") {
      if (loops_ == 0)
        fail(line, fmt::format("{{% {} %}} is outside of a for", name));
      return {.kind = name == "break" ? statement_kind::break_loop : statement_kind::continue_loop,
              .line = line};
    }
    for (const auto other : other_tags)
      if (name == other)
        fail(line, fmt::format("the tag {{% {} %}} is not supported", name));
    fail(line, fmt::format("there is no tag {{% {} %}}, or not here", name));
  }

  void end_of_tag() { expect(token_kind::block_end, "'%}'"); }

  statement for_loop(int line) {
    statement out{.kind = statement_kind::for_loop, .line = line};
    out.target = target(false);
    if (!take_name("in"))
      unexpected("'in'");
    out.first = tuple(false);
    if (take_name("if"))
      out.second = whole();
    if (is_name("recursive"))
      fail(line, "a recursive for is not supported");
    end_of_tag();
    ++loops_;
    out.body = body({"else", "endfor"});
    --loops_;
    if (take_name("else")) {
      end_of_tag();
      out.otherwise = body({"endfor"});
    }
    take();
    return out;
  }

  statement condition(int line) {
    statement out{.kind = statement_kind::condition, .line = line};
    do {
      auto when = tuple(false);
      end_of_tag();
      out.branches.push_back({std::move(when), body({"elif", "else", "endif"})});
    } while (take_name("elif"));
    if (take_name("else")) {
      end_of_tag();
      out.otherwise = body({"endif"});
    }
    take();
    return out;
  }

  statement set(int line) {
    statement out{.kind = statement_kind::set, .line = line};
    out.target = target(true);
    if (take_mark("=")) {
      out.first = tuple();
      return out;
    }
    out.kind = statement_kind::set_block;
    out.first = filters(nullptr, false);
    end_of_tag();
    out.body = buffered("endset");
    take();
    return out;
  }

  /// Parses a body with buffered output. It cannot break or continue an outer loop.
  statements buffered(std::string_view end) {
    const auto loops = std::exchange(loops_, 0);
    ++buffers_;
    auto out = body({end});
    --buffers_;
    loops_ = loops;
    return out;
  }

  statement macro(int line) {
    statement out{.kind = statement_kind::macro, .line = line};
    out.text = expect_name("the macro's name");
    const auto varargs = varargs_, kwargs = kwargs_;
    expect_mark("(");
    while (!is_mark(")")) {
      parameter one{expect_name("a parameter's name"), nullptr};
      if (take_mark("="))
        one.otherwise = whole();
      else if (!out.parameters.empty() && out.parameters.back().otherwise != nullptr)
        fail(line, "a parameter without a default follows one with a default");
      out.parameters.push_back(std::move(one));
      if (!take_mark(","))
        break;
    }
    expect_mark(")");
    end_of_tag();
    out.body = buffered("endmacro");
    out.takes_more = varargs_ > varargs;
    out.takes_more_named = kwargs_ > kwargs;
    take();
    return out;
  }

  statement filter_block(int line) {
    statement out{.kind = statement_kind::filter_block, .line = line};
    out.first = filters(nullptr, true);
    end_of_tag();
    out.body = buffered("endfilter");
    take();
    return out;
  }

  statement with(int line) {
    statement out{.kind = statement_kind::with, .line = line};
    while (now().kind != token_kind::block_end) {
      if (!out.assignments.empty())
        expect_mark(",");
      auto to = target(false);
      expect_mark("=");
      out.assignments.push_back({std::move(to), whole()});
    }
    end_of_tag();
    out.body = body({"endwith"});
    take();
    return out;
  }

  statement generation(int line) {
    if (buffers_ > 0)
      fail(line,
           "{% generation %} within a macro, or within a set or filter block, is not supported: "
           "where its text ends up is not known");
    end_of_tag();
    const auto loops = std::exchange(loops_, 0);
    statement out{.kind = statement_kind::generation, .line = line};
    out.body = body({"endgeneration"});
    loops_ = loops;
    take();
    return out;
  }

  int loops_ = 0, buffers_ = 0;
};

}  // namespace

statements parse(std::vector<token> tokens, const std::string& name) {
  return statement_parser(std::move(tokens), name).run();
}

}  // namespace troupe::runtime::jinja
