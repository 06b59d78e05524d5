// The class ArangoError, and the error numbers that scripts use by name.
'use strict';

const NAMED = `
0 NO_ERROR no error|1 FAILED failed|2 SYS_ERROR system error|3 OUT_OF_MEMORY out of memory|4 INTERNAL internal error
9 NOT_IMPLEMENTED not implemented|10 BAD_PARAMETER bad parameter|11 FORBIDDEN forbidden|17 TYPE_ERROR type error
18 LOCK_TIMEOUT lock timeout|28 LOCKED locked|32 RESOURCE_LIMIT resource limit exceeded|36 DEADLOCK deadlock detected
400 HTTP_BAD_PARAMETER bad parameter|401 HTTP_UNAUTHORIZED unauthorized|403 HTTP_FORBIDDEN forbidden|404 HTTP_NOT_FOUND not found
405 HTTP_METHOD_NOT_ALLOWED method not supported|412 HTTP_PRECONDITION_FAILED precondition failed|500 HTTP_SERVER_ERROR internal server error
503 HTTP_SERVICE_UNAVAILABLE service unavailable|600 HTTP_CORRUPTED_JSON invalid JSON object|601 HTTP_SUPERFLUOUS_SUFFICES superfluous URL suffices
1004 ARANGO_READ_ONLY read only|1200 ARANGO_CONFLICT conflict|1202 ARANGO_DOCUMENT_NOT_FOUND document not found
1203 ARANGO_DATA_SOURCE_NOT_FOUND collection or view not found|1204 ARANGO_COLLECTION_PARAMETER_MISSING parameter 'collection' not found
1205 ARANGO_DOCUMENT_HANDLE_BAD illegal document identifier|1207 ARANGO_DUPLICATE_NAME duplicate name|1208 ARANGO_ILLEGAL_NAME illegal name
1209 ARANGO_NO_INDEX no suitable index known|1210 ARANGO_UNIQUE_CONSTRAINT_VIOLATED unique constraint violated
1212 ARANGO_INDEX_NOT_FOUND index not found|1213 ARANGO_CROSS_COLLECTION_REQUEST cross collection request not allowed
1214 ARANGO_INDEX_HANDLE_BAD illegal index identifier|1216 ARANGO_DOCUMENT_TOO_LARGE document too large
1218 ARANGO_COLLECTION_TYPE_INVALID collection type invalid|1220 ARANGO_ATTRIBUTE_PARSER_FAILED parsing attribute name definition failed
1221 ARANGO_DOCUMENT_KEY_BAD illegal document key|1222 ARANGO_DOCUMENT_KEY_UNEXPECTED unexpected document key
1226 ARANGO_DOCUMENT_REV_BAD illegal document revision|1227 ARANGO_DOCUMENT_TYPE_INVALID invalid document type
1228 ARANGO_DATABASE_NOT_FOUND database not found|1229 ARANGO_DATABASE_NAME_INVALID database name invalid
1230 ARANGO_USE_SYSTEM_DATABASE operation only allowed in system database|1232 ARANGO_INVALID_KEY_GENERATOR invalid key generator
1233 ARANGO_INVALID_EDGE_ATTRIBUTE edge attribute missing or invalid|1235 ARANGO_INDEX_CREATION_FAILED index creation failed
1237 ARANGO_COLLECTION_TYPE_MISMATCH collection type mismatch|1239 ARANGO_COLLECTION_NOT_LOADED collection not loaded
1240 ARANGO_DOCUMENT_REV_BAD illegal document revision|1500 QUERY_KILLED query killed|1501 QUERY_PARSE parse error|1502 QUERY_EMPTY query is empty
1504 QUERY_NUMBER_OUT_OF_RANGE number out of range|1505 QUERY_INVALID_GEO_VALUE invalid geo coordinate value
1510 QUERY_VARIABLE_NAME_INVALID variable name has an invalid format|1511 QUERY_VARIABLE_REDECLARED variable is assigned multiple times
1512 QUERY_VARIABLE_NAME_UNKNOWN unknown variable|1522 QUERY_TOO_MANY_COLLECTIONS too many collections/shards|1524 QUERY_TOO_MUCH_NESTING too much nesting or too many objects
1539 QUERY_INVALID_OPTIONS_ATTRIBUTE unknown OPTIONS attribute|1540 QUERY_FUNCTION_NAME_UNKNOWN usage of unknown function
1541 QUERY_FUNCTION_ARGUMENT_NUMBER_MISMATCH invalid number of arguments|1542 QUERY_FUNCTION_ARGUMENT_TYPE_MISMATCH invalid argument type
1543 QUERY_INVALID_REGEX invalid regex|1550 QUERY_BIND_PARAMETERS_INVALID invalid structure of bind parameters
1551 QUERY_BIND_PARAMETER_MISSING no value specified for declared bind parameter|1552 QUERY_BIND_PARAMETER_UNDECLARED bind parameter was not declared in the query
1553 QUERY_BIND_PARAMETER_TYPE bind parameter has an invalid value or type|1554 QUERY_VECTOR_SEARCH_NOT_APPLIED failed vector search
1555 QUERY_VECTOR_INDEX_NOT_READY vector index not ready|1560 QUERY_INVALID_LOGICAL_VALUE invalid logical value
1561 QUERY_INVALID_ARITHMETIC_VALUE invalid arithmetic value|1562 QUERY_DIVISION_BY_ZERO division by zero|1563 QUERY_ARRAY_EXPECTED array expected
1568 QUERY_COLLECTION_USED_IN_EXPRESSION collection used as expression operand|1569 QUERY_FAIL_CALLED FAIL() called
1570 QUERY_GEO_INDEX_MISSING no suitable geo index found|1571 QUERY_FULLTEXT_INDEX_MISSING no suitable fulltext index found
1572 QUERY_INVALID_DATE_VALUE invalid date value|1573 QUERY_MULTI_MODIFY multi-modify query|1574 QUERY_INVALID_AGGREGATE_EXPRESSION invalid aggregate expression
1575 QUERY_COMPILE_TIME_OPTIONS query options must be readable at query compile time|1576 QUERY_DNF_COMPLEXITY condition complexity is too high
1577 QUERY_FORCED_INDEX_HINT_UNUSABLE could not use forced index hint|1578 QUERY_DISALLOWED_DYNAMIC_CALL disallowed dynamic call
1579 QUERY_ACCESS_AFTER_MODIFICATION access after data-modification|1580 QUERY_FUNCTION_INVALID_NAME invalid user function name
1581 QUERY_FUNCTION_INVALID_CODE invalid user function code|1582 QUERY_FUNCTION_NOT_FOUND user function not found|1591 QUERY_NOT_FOUND query ID not found
1600 CURSOR_NOT_FOUND cursor not found|1601 CURSOR_BUSY cursor is busy|1620 VALIDATION_FAILED schema validation failed|1621 VALIDATION_BAD_PARAMETER invalid schema validation parameter
1650 TRANSACTION_INTERNAL internal transaction error|1651 TRANSACTION_NESTED nested transactions detected
1652 TRANSACTION_UNREGISTERED_COLLECTION unregistered collection used in transaction|1653 TRANSACTION_DISALLOWED_OPERATION disallowed operation inside transaction
1654 TRANSACTION_ABORTED transaction aborted|1655 TRANSACTION_NOT_FOUND transaction not found|1700 USER_INVALID_NAME invalid user name
1702 USER_DUPLICATE duplicate user|1703 USER_NOT_FOUND user not found|1901 GRAPH_INVALID_GRAPH invalid graph
1906 GRAPH_INVALID_PARAMETER invalid parameter|1920 GRAPH_COLLECTION_MULTI_USE multi use of edge collection in edge def
1921 GRAPH_COLLECTION_USE_IN_MULTI_GRAPHS edge collection already used in edge def|1922 GRAPH_CREATE_MISSING_NAME missing graph name
1923 GRAPH_CREATE_MALFORMED_EDGE_DEFINITION malformed edge definition|1924 GRAPH_NOT_FOUND graph not found|1925 GRAPH_DUPLICATE graph already exists
1926 GRAPH_VERTEX_COL_DOES_NOT_EXIST vertex collection does not exist or is not part of the graph
1927 GRAPH_WRONG_COLLECTION_TYPE_VERTEX collection not a vertex collection|1928 GRAPH_NOT_IN_ORPHAN_COLLECTION collection is not in list of orphan collections
1929 GRAPH_COLLECTION_USED_IN_EDGE_DEF collection already used in edge def|1930 GRAPH_EDGE_COLLECTION_NOT_USED edge collection not used in graph
1932 GRAPH_NO_GRAPH_COLLECTION collection _graphs does not exist|1938 GRAPH_COLLECTION_USED_IN_ORPHANS collection used in orphans
1939 GRAPH_EDGE_COL_DOES_NOT_EXIST edge collection does not exist or is not part of the graph|1940 GRAPH_EMPTY empty graph
1941 GRAPH_INTERNAL_DATA_CORRUPT internal graph data corrupt|1942 GRAPH_MUST_NOT_DROP_COLLECTION must not drop collection while part of graph
1943 GRAPH_CREATE_MALFORMED_ORPHAN_LIST malformed orphan list|1947 GRAPH_REFERENCED_VERTEX_COLLECTION_NOT_PART_OF_THE_GRAPH referenced vertex collection is not part of the graph`;

const errors = {};
for (const entry of NAMED.trim().split(/[\n|]/)) {
  const [, code, name, message] = /^(\d+) (\S+) (.*)$/.exec(entry);
  errors[name === 'NO_ERROR' ? name : `ERROR_${name}`] = { code: Number(code), message };
}
errors.ERROR_ARANGO_COLLECTION_NOT_FOUND = errors.ERROR_ARANGO_DATA_SOURCE_NOT_FOUND;

class ArangoError extends Error {
  constructor(answer) {
    super((answer && (answer.errorMessage || answer.message)) || 'unknown error');
    this.error = true;
    this.name = 'ArangoError';
    this.code = answer && answer.code;
    this.errorNum = answer && answer.errorNum;
    this.errorMessage = this.message;
  }

  toString() {
    return `ArangoError ${this.errorNum}: ${this.errorMessage}`;
  }

  _PRINT() {
    return `[${this}]`;
  }
}

function raise(num, code, detail) {
  const known = Object.values(errors).find((entry) => entry.code === num);
  throw new ArangoError({ errorNum: num, code, errorMessage: detail || (known ? known.message : 'unknown error') });
}

module.exports = { ArangoError, errors, raise };
