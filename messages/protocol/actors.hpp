// All actor handles and message types.

#pragma once

#include "messages/core/type_ids.hpp"
#include "messages/protocol/handles.hpp"
