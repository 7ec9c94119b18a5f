// The output of `troupe checkpoint`: pages of 80 columns, or JSON.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/listing.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace troupe::command {

constexpr std::size_t page_width = 80, title_width = 12;  ///< in columns

/// "2026-11-21 05:23" in local time; empty for the clock's epoch.
std::string minute(std::chrono::system_clock::time_point when);

/// `ls`: one line per checkpoint.
std::string list_page(const std::vector<runtime::listed_checkpoint>& all);
nlohmann::ordered_json list_json(const std::vector<runtime::listed_checkpoint>& all);

/// `show`: the manifest of a checkpoint.
std::string show_page(const runtime::listed_checkpoint& x, bool tensors);
nlohmann::ordered_json show_json(const runtime::listed_checkpoint& x, bool tensors);

/// `diff`: compares every element of every tensor. Throws input_error for a damaged checkpoint.
nlohmann::ordered_json diff_json(const runtime::checkpoint_reader& a,
                                 const runtime::checkpoint_reader& b);
/// The result of diff_json as text for a terminal.
std::string diff_page(const nlohmann::ordered_json& found);

}  // namespace troupe::command
