#include "actors/command/supervisor_order.hpp"

#include "runtime/core/error.hpp"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <utility>

namespace troupe::command {

std::string text_of(const supervisor_order& x) {
  std::string out;
  const auto add = [&out](const std::string& text) {  // any bytes: paths need not be UTF-8
    out += std::to_string(text.size()) + "\n" + text;
  };
  add(x.job);
  add(x.configuration);
  add(std::to_string(x.terminal.status_line_columns));
  add(x.terminal.output ? "1" : "0");
  add(std::to_string(x.front.pid));
  add(std::to_string(x.front.start_time));
  add(x.hosts.credentials.string());
  add(x.hosts.address);
  add(x.hosts.insecure ? "1" : "0");
  add(x.moved ? "1" : "0");
  for (const auto* const nodes : {&x.hosts.nodes, &x.hosts.spares}) {
    add(std::to_string(nodes->size()));
    for (const auto& node : *nodes) {
      add(node.name);
      add(node.address);
      add(std::to_string(node.port));
      add(std::to_string(node.slots));
      add(node.domain);
    }
  }
  for (const auto& word : x.command)
    add(word);
  return out;
}

supervisor_order read_supervisor_order(const std::string& text) {
  std::deque<std::string> texts;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = std::min(text.find('\n', at), text.size() - 1) + 1;
    const auto size = std::strtoull(text.c_str() + at, nullptr, 10);
    if (size > text.size() - begin)
      throw runtime::input_error("the order of a supervisor's process ends within a text");
    texts.push_back(text.substr(begin, size));
    at = begin + size;
  }
  const auto next = [&texts] {
    if (texts.empty())
      throw runtime::input_error("the order of a supervisor's process ends too early");
    auto out = std::move(texts.front());
    texts.pop_front();
    return out;
  };
  const auto number = [&next] { return std::atoi(next().c_str()); };
  supervisor_order out;
  out.job = next();
  out.configuration = next();
  out.terminal.status_line_columns = number();
  out.terminal.output = next() == "1";
  out.front.pid = number();
  out.front.start_time = std::strtoull(next().c_str(), nullptr, 10);
  out.hosts.credentials = next();
  out.hosts.address = next();
  out.hosts.insecure = next() == "1";
  out.moved = next() == "1";
  for (auto* const nodes : {&out.hosts.nodes, &out.hosts.spares}) {
    nodes->resize(std::min(std::size_t(number()), texts.size()));
    for (auto& node : *nodes) {
      node.name = next();
      node.address = next();
      node.port = std::uint16_t(number());
      node.slots = number();
      node.domain = next();
    }
  }
  out.command = {texts.begin(), texts.end()};
  return out;
}

}  // namespace troupe::command
